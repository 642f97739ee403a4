#include "muster/data/records/record_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/records/record_writer.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using testing::flip_byte;
using ::testing::HasSubstr;
using testing::read_bytes;
using testing::TempDir;
using testing::write_bytes;

class RecordIndexTest : public ::testing::Test {
 protected:
  void write(std::size_t records, Compression compression = Compression::kNone) const {
    RecordWriter writer(path(), {.compression = compression, .durable = false});
    for (std::size_t i = 0; i < records; ++i) writer.append(std::string(i % 100, 'x'));
    writer.close();
  }
  Path path() const { return folder_ / "records"; }
  Path index_path() const { return folder_ / "records.index"; }

  TempDir folder_;
};

TEST_F(RecordIndexTest, KnowsWhereEveryRecordBegins) {
  for (const std::size_t count : {0, 1, 127, 128, 129, 1000}) {
    write(count);
    const RecordIndex index = RecordIndex::build(path());
    ASSERT_EQ(index.count(), count);
    RecordReader reader(path());
    for (std::uint64_t number = 0; number < count; ++number) {
      ASSERT_EQ(index.offset(number), reader.offset());
      reader.next();
    }
    EXPECT_THROW(index.offset(count), OutOfRange);
  }
}

TEST_F(RecordIndexTest, LoadGivesWhatWasWritten) {
  write(1000);
  const RecordIndex built = RecordIndex::build(path());
  built.write(path());
  const RecordIndex loaded = RecordIndex::load(path());
  EXPECT_EQ(loaded.bytes(), built.bytes());
  EXPECT_EQ(loaded.offset(999), built.offset(999));
}

TEST_F(RecordIndexTest, TakesLittleMoreThanFourBytesARecord) {
  write(10000);
  EXPECT_LT(RecordIndex::build(path()).bytes().size(), 41000u);
}

TEST_F(RecordIndexTest, OffsetsFarApartTakeEightBytes) {
  const std::vector<std::uint64_t> offsets = {0, 5'000'000'000, 90'000'000'000'000};
  const RecordIndex index = RecordIndex::from_offsets(offsets, {.size_bytes = 100'000'000'000'000});
  for (std::size_t i = 0; i < offsets.size(); ++i) EXPECT_EQ(index.offset(i), offsets[i]);
}

TEST_F(RecordIndexTest, CompressedFileHasACountAlone) {
  write(300, Compression::kGzip);
  const RecordIndex index = RecordIndex::build(path());
  EXPECT_EQ(index.count(), 300u);
  EXPECT_FALSE(index.has_offsets());
  EXPECT_THROW(index.offset(0), FailedPrecondition);
}

TEST_F(RecordIndexTest, DamagedFileGetsNoIndex) {
  write(300);
  flip_byte(path(), 400);
  EXPECT_THROW(RecordIndex::build(path()), DataLoss);
}

TEST_F(RecordIndexTest, MissingOneIsNotFound) {
  write(3);
  EXPECT_THROW(RecordIndex::load(path()), NotFound);
  EXPECT_FALSE(RecordIndex::load_if_valid(path()));
}

TEST_F(RecordIndexTest, FileOfAnotherSizeOrTimeMakesItStale) {
  write(3);
  RecordIndex::build(path()).write(path());
  const auto time = std::filesystem::last_write_time(path());
  std::filesystem::last_write_time(path(), time + std::chrono::seconds(1));
  EXPECT_THROW(RecordIndex::load(path()), FailedPrecondition);
  std::filesystem::last_write_time(path(), time);
  EXPECT_EQ(RecordIndex::load(path()).count(), 3u);
  write_bytes(path(), read_bytes(path()) + "x");
  std::filesystem::last_write_time(path(), time);
  EXPECT_THROW(RecordIndex::load(path()), FailedPrecondition);
}

TEST_F(RecordIndexTest, StaleOneIsNotUsedAndTheLogSaysWhy) {
  write(3);
  RecordIndex::build(path()).write(path());
  write(4);
  std::string logged;
  log::set_level(log::Level::kDebug);
  log::set_sink([&](log::Level, std::string_view line) { logged += line; });
  EXPECT_FALSE(RecordIndex::load_if_valid(path()));
  log::set_sink({});
  log::set_level(log::Level::kInfo);
  EXPECT_THAT(logged, HasSubstr("is stale"));
}

TEST_F(RecordIndexTest, AnyFlippedByteIsFound) {
  write(200);
  RecordIndex::build(path()).write(path());
  const std::string good = read_bytes(index_path());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 0x40;
    EXPECT_THROW(RecordIndex::parse(bad, "test"), Error) << "byte " << i;
  }
}

TEST_F(RecordIndexTest, AnyOtherLengthIsFound) {
  write(200);
  const std::string good(RecordIndex::build(path()).bytes());
  for (std::size_t size = 0; size < good.size(); size += 7) {
    EXPECT_THROW(RecordIndex::parse(good.substr(0, size), "test"), DataLoss) << "size " << size;
  }
  EXPECT_THROW(RecordIndex::parse(good + "x", "test"), DataLoss);
}

}  // namespace
}  // namespace muster
