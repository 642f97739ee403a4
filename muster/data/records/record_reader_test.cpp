#include "muster/data/records/record_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "muster/data/records/record_writer.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using testing::flip_byte;
using ::testing::HasSubstr;
using testing::read_bytes;
using testing::TempDir;
using testing::write_bytes;

// Three records: alpha at 0, beta at 21, gamma at 41, the end at 62.
constexpr std::size_t kBeta = 21;
constexpr std::size_t kGamma = 41;
constexpr std::size_t kEnd = 62;

class RecordReaderTest : public ::testing::Test {
 protected:
  Path write(const std::vector<std::string>& records,
             Compression compression = Compression::kNone) const {
    RecordWriter writer(path(), {.compression = compression, .durable = false});
    for (const std::string& record : records) writer.append(record);
    writer.close();
    return path();
  }
  Path path() const { return folder_ / "records"; }

  TempDir folder_;
};

std::vector<std::string> read_all(RecordReader& reader) {
  std::vector<std::string> records;
  while (const auto record = reader.next()) records.emplace_back(*record);
  return records;
}

std::vector<std::string> many_records() {
  std::vector<std::string> records;
  for (std::size_t i = 0; i < 3000; ++i) {
    records.push_back(std::string((i * 37) % 900, static_cast<char>('a' + i % 26)));
  }
  records.push_back(std::string(std::size_t{3} << 20, 'z'));  // longer than any block
  records.push_back("last");
  return records;
}

/// Message of the `Failure` that next() throws; the test fails if it throws nothing.
template <typename Failure>
std::string next_throws(RecordReader& reader) {
  try {
    reader.next();
  } catch (const Failure& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST_F(RecordReaderTest, ReadsWhatWasWrittenWithEveryCompression) {
  for (const auto compression : {Compression::kNone, Compression::kZlib, Compression::kGzip}) {
    write(many_records(), compression);
    for (const auto told : {compression, Compression::kAuto}) {
      RecordReader reader(path(), {.compression = told});
      EXPECT_EQ(read_all(reader), many_records()) << name_of(compression);
      EXPECT_EQ(reader.compression(), compression);
      EXPECT_EQ(reader.record_number(), many_records().size());
    }
  }
}

TEST_F(RecordReaderTest, EmptyFileHasNoRecords) {
  write_bytes(path(), "");
  RecordReader reader(path());
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.next());
}

TEST_F(RecordReaderTest, CompressedFileWithoutRecordsIsEmpty) {
  for (const auto compression : {Compression::kZlib, Compression::kGzip}) {
    write({}, compression);
    RecordReader reader(path());
    EXPECT_FALSE(reader.next());
  }
}

TEST_F(RecordReaderTest, ReadsEmptyRecords) {
  RecordReader reader(write({"", "x", ""}));
  EXPECT_THAT(read_all(reader), ElementsAre("", "x", ""));
}

TEST_F(RecordReaderTest, MissingFileIsNotFound) { EXPECT_THROW(RecordReader{path()}, NotFound); }

TEST_F(RecordReaderTest, ReadsFromAPipe) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  for (const auto compression : {Compression::kNone, Compression::kGzip}) {
    const Path file = folder_ / "file";
    {
      RecordWriter writer(file, {.compression = compression});
      for (const auto& record : many_records()) writer.append(record);
      writer.close();
    }
    std::jthread writing([&] { std::ofstream(path(), std::ios::binary) << read_bytes(file); });
    RecordReader reader(path());
    EXPECT_EQ(read_all(reader), many_records());
    EXPECT_FALSE(reader.seekable());
  }
}

TEST_F(RecordReaderTest, StopsARecordThatGrowsFarBeyondItsFile) {
  const std::string zeros(std::size_t{32} << 20, '\0');
  for (const auto compression : {Compression::kGzip, Compression::kZlib}) {
    write({zeros}, compression);
    RecordReader reader(path());
    EXPECT_THROW(reader.next(), ResourceExhausted);
    RecordReader trusting(path(), {.limits = {.max_ratio = 2000}});
    EXPECT_EQ(trusting.next(), zeros);
  }
}

TEST_F(RecordReaderTest, SharesKeepRecordsAliveAfterTheReader) {
  for (const auto compression : {Compression::kNone, Compression::kGzip}) {
    write(many_records(), compression);
    std::vector<Record> records;
    {
      RecordReader reader(path());
      for (Record record; reader.next(record);) records.push_back(record);
    }
    std::vector<std::string> copies;
    for (const Record& record : records) copies.emplace_back(record.bytes);
    EXPECT_EQ(copies, many_records());
  }
}

TEST_F(RecordReaderTest, KnowsWhereItStands) {
  RecordReader reader(write({"alpha", "beta", "gamma"}));
  EXPECT_EQ(reader.offset(), 0u);
  reader.next();
  EXPECT_EQ(reader.offset(), kBeta);
  EXPECT_TRUE(reader.skip());
  EXPECT_EQ(reader.offset(), kGamma);
  EXPECT_EQ(reader.record_number(), 2u);
  EXPECT_EQ(reader.next(), "gamma");
  EXPECT_FALSE(reader.skip());
  EXPECT_EQ(reader.offset(), kEnd);
}

TEST_F(RecordReaderTest, SeekGoesToARecord) {
  RecordReader reader(write({"alpha", "beta", "gamma"}));
  reader.seek(kGamma, 2);
  EXPECT_EQ(reader.next(), "gamma");
  reader.seek(kBeta, 1);
  EXPECT_EQ(reader.record_number(), 1u);
  EXPECT_EQ(reader.next(), "beta");
  reader.seek(kEnd, 3);
  EXPECT_FALSE(reader.next());
  EXPECT_THROW(reader.seek(kEnd + 1, 3), OutOfRange);
}

TEST_F(RecordReaderTest, CompressedFileCannotSeek) {
  RecordReader reader(write({"alpha"}, Compression::kGzip));
  EXPECT_FALSE(reader.seekable());
  EXPECT_THROW(reader.seek(0, 0), FailedPrecondition);
}

TEST_F(RecordReaderTest, ThrowsDataLossWhenAByteOfThePayloadFlipsAndGoesOnBehindIt) {
  write({"alpha", "beta", "gamma"});
  flip_byte(path(), kBeta + 13);
  RecordReader reader(path());
  reader.next();
  const std::string message = next_throws<DataLoss>(reader);
  EXPECT_THAT(message, HasSubstr("records record 1 at byte 21: its data (4 bytes)"));
  EXPECT_EQ(reader.next(), "gamma");
}

TEST_F(RecordReaderTest, DamagedPayloadPassesWithoutVerification) {
  write({"alpha", "beta"});
  flip_byte(path(), 13);
  RecordReader reader(path(), {.verify_checksums = false});
  EXPECT_EQ(reader.next()->size(), 5u);
  EXPECT_EQ(reader.next(), "beta");
}

TEST_F(RecordReaderTest, DamagedLengthThrowsTheSameAgain) {
  write({"alpha", "beta", "gamma"});
  flip_byte(path(), kBeta);
  RecordReader reader(path());
  reader.next();
  const std::string first = next_throws<DataLoss>(reader);
  EXPECT_THAT(first, HasSubstr("record 1 at byte 21: its length does not match"));
  EXPECT_EQ(next_throws<DataLoss>(reader), first);
}

TEST_F(RecordReaderTest, SkipsDamagedDataAndLengthUpToTheBudget) {
  write({"alpha", "beta", "gamma", "delta", "epsilon"});
  flip_byte(path(), 13);      // the data of alpha
  flip_byte(path(), kGamma);  // the length of gamma
  for (const auto compression : {Compression::kNone, Compression::kAuto}) {
    std::vector<std::string> told;
    RecordReader reader(path(),
                        {.compression = compression,
                         .skip_bad_records = 2,
                         .on_bad_record = [&](const Error& e) { told.push_back(e.what()); }});
    EXPECT_THAT(read_all(reader), ElementsAre("beta", "delta", "epsilon"));
    EXPECT_EQ(reader.skipped(), 2u);
    EXPECT_EQ(reader.record_number(), 5u);
    EXPECT_THAT(told,
                ElementsAre(HasSubstr("record 0 at byte 0"), HasSubstr("record 2 at byte 41")));
  }
  RecordReader strict(path(), {.skip_bad_records = 1});
  EXPECT_THROW(read_all(strict), DataLoss);
}

TEST_F(RecordReaderTest, FindsTheNextRecordBehindABadFirstLength) {
  write({"alpha", "beta"});
  flip_byte(path(), 3);
  EXPECT_THROW(RecordReader{path()}, DataLoss);
  RecordReader reader(path(), {.skip_bad_records = 1});
  EXPECT_THAT(read_all(reader), ElementsAre("beta"));
}

TEST_F(RecordReaderTest, ResynchronisesInAPipeToo) {
  std::string bytes = read_bytes(write(many_records()));
  bytes[4] ^= 0x10;  // the length of the first record
  const Path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::jthread writing([&] { std::ofstream(pipe, std::ios::binary) << bytes; });
  RecordReader reader(pipe, {.skip_bad_records = 1});
  std::vector<std::string> rest = many_records();
  rest.erase(rest.begin());
  EXPECT_EQ(read_all(reader), rest);
}

TEST_F(RecordReaderTest, TornTailIsToldApartFromDamageAtEveryLength) {
  const std::string whole = read_bytes(write({"alpha", "beta", "gamma"}));
  for (std::size_t size = kGamma + 1; size < kEnd; ++size) {
    write_bytes(path(), whole.substr(0, size));
    RecordReader reader(path());
    EXPECT_EQ(reader.next(), "alpha");
    EXPECT_EQ(reader.next(), "beta");
    try {
      reader.next();
      FAIL() << "nothing was thrown at size " << size;
    } catch (const TornTail& torn) {
      EXPECT_EQ(torn.whole_bytes(), kGamma);
      EXPECT_EQ(torn.code(), ErrorCode::kDataLoss);
    }
    EXPECT_THROW(reader.next(), TornTail);
  }
}

TEST_F(RecordReaderTest, TornTailCountsAsOneSkippedRecord) {
  const std::string whole = read_bytes(write({"alpha", "beta"}));
  write_bytes(path(), whole.substr(0, kBeta + 15));
  RecordReader reader(path(), {.skip_bad_records = 5});
  EXPECT_THAT(read_all(reader), ElementsAre("alpha"));
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.skipped(), 1u);
}

TEST_F(RecordReaderTest, FileOfAnotherKindSaysSo) {
  write_bytes(path(), "age,workclass,education\n39,State-gov,Bachelors\n");
  try {
    RecordReader reader(path());
    FAIL() << "nothing was thrown";
  } catch (const DataLoss& error) {
    EXPECT_THAT(error.what(), HasSubstr("not a TFRecord file"));
  }
}

TEST_F(RecordReaderTest, RecordBeyondTheLimitIsRefused) {
  RecordReader reader(write({"alpha", "a longer one"}), {.max_record_bytes = 5});
  EXPECT_EQ(reader.next(), "alpha");
  EXPECT_THAT(next_throws<ResourceExhausted>(reader), HasSubstr("max_record_bytes"));
}

TEST_F(RecordReaderTest, WholeRecordsBeforeATruncatedCompressionAreRead) {
  const std::string whole = read_bytes(write(many_records(), Compression::kGzip));
  write_bytes(path(), whole.substr(0, whole.size() / 2));
  RecordReader reader(path());
  std::size_t count = 0;
  try {
    while (reader.next()) ++count;
    FAIL() << "nothing was thrown";
  } catch (const DataLoss& error) {
    EXPECT_THAT(error.what(), HasSubstr("truncated"));
    EXPECT_THAT(error.what(), HasSubstr("records record "));
  }
  EXPECT_GT(count, 500u);
}

TEST_F(RecordReaderTest, ReadsBytesInMemory) {
  const std::string bytes = read_bytes(write({"alpha", "beta"}));
  RecordReader reader(bytes, "memory");
  EXPECT_THAT(read_all(reader), ElementsAre("alpha", "beta"));
}

TEST(RecordReaderRealData, ReadsWhatTensorFlowWrote) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  RecordReader reader(data / "tensorflow" / "wire_vocabulary.tfrecord.gz");
  EXPECT_THAT(read_all(reader), ElementsAre("omar", "stringer", "marlo"));
  EXPECT_EQ(reader.compression(), Compression::kGzip);
}

}  // namespace
}  // namespace muster
