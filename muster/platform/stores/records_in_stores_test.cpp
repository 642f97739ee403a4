#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/object_store.h"
#include "muster/base/shared_block.h"
#include "muster/data/records/record_reader.h"
#include "muster/data/records/record_writer.h"
#include "muster/data/records/text_lines.h"
#include "muster/data/records/tfrecord_source.h"
#include "muster/platform/stores/object_file_system.h"
#include "muster/platform/stores/s3_api.h"
#include "muster/platform/stores/test_environment_internal.h"
#include "muster/testing/fake_s3.h"

namespace muster::stores {
namespace {

/// Files of records in a store of ranges of 8 MiB, as it is by default.
class RecordsInStores : public ::testing::Test {
 protected:
  void SetUp() override {
    environment_.set("AWS_ACCESS_KEY_ID", "id");
    environment_.set("AWS_SECRET_ACCESS_KEY", "the-secret");
    // A reader that first copies a file to this host fails.
    environment_.set("TMPDIR", "/nonexistent");
    S3Settings settings;
    settings.endpoint = s3_.url();
    settings.retry = kQuickRetries;
    const auto transfers = std::make_shared<Transfers>();
    register_file_system("s3",
                         make_object_file_system(
                             "s3", [=] { return make_s3_api(settings, transfers); }, transfers));
  }

  static std::string record(std::size_t number) {
    std::string bytes = std::to_string(number);
    bytes.resize(200 + number % 100, 'x');
    return bytes;
  }

  static std::uint64_t write(const Path& path, std::size_t begin, std::size_t end,
                             bool write_index = false) {
    RecordWriter writer(path, {.write_index = write_index});
    for (std::size_t i = begin; i < end; ++i) writer.append(record(i));
    writer.close();
    return writer.bytes();
  }

  Environment environment_;
  testing::FakeS3 s3_;
};

TEST_F(RecordsInStores, AnEpochMakesAGetPerRange) {
  constexpr std::size_t kRecords = 100'000;
  const std::uint64_t bytes =
      write("s3://bucket/a", 0, kRecords / 4) + write("s3://bucket/b", kRecords / 4, kRecords);
  const int before = s3_.calls("GET");
  std::size_t number = 0;
  for (const char* name : {"s3://bucket/a", "s3://bucket/b"}) {
    TFRecordSource source(name);
    for (Record read; source.next(read); ++number) ASSERT_EQ(read.bytes, record(number));
  }
  EXPECT_EQ(number, kRecords);
  EXPECT_LE(s3_.calls("GET") - before, static_cast<int>(bytes / 8'000'000) + 2);
}

TEST_F(RecordsInStores, RecordsStayWhereTheyLieWhileSomebodyHasThem) {
  write("s3://bucket/x", 0, 100'000);
  std::vector<Record> kept;
  TFRecordSource source("s3://bucket/x");
  std::size_t number = 0;
  for (Record read; source.next(read); ++number) {
    // Some of every range, those between ranges among them.
    if (number % 50 == 0 || (number > 29'000 && number < 34'000)) kept.push_back(read);
  }
  ASSERT_EQ(number, 100'000U);
  for (const Record& read : kept) {
    ASSERT_EQ(read.bytes, record(std::stoul(std::string(read.bytes))));
  }
  EXPECT_TRUE(is_shared_block(kept.front().owner)) << "a shuffle would keep its whole range";
}

TEST_F(RecordsInStores, ARecordMayLieInSeveralRanges) {
  const std::string large(std::size_t{20} << 20, 'l');
  {
    RecordWriter writer("s3://bucket/x");
    for (const std::string& bytes : {record(1), large, record(2), large, record(3)}) {
      writer.append(bytes);
    }
    writer.close();
  }
  RecordReader reader("s3://bucket/x");
  for (const std::string& bytes : {record(1), large, record(2), large, record(3)}) {
    ASSERT_TRUE(reader.next() == bytes);
  }
  EXPECT_FALSE(reader.next());
}

TEST_F(RecordsInStores, WhatIsDamagedBetweenRangesIsPassedOver) {
  write("s3://bucket/x", 0, 100'000);
  std::string bytes = *s3_.bytes_of("bucket/x");
  bytes[(std::size_t{8} << 20) - 1] ^= 1;
  s3_.set_bytes("bucket/x", bytes);
  RecordReader reader("s3://bucket/x", {.skip_bad_records = 1});
  std::size_t count = 0;
  while (reader.next()) ++count;
  EXPECT_EQ(count, 99'999U);
}

TEST_F(RecordsInStores, AFileThatIsCutShortSaysSo) {
  write("s3://bucket/x", 0, 100'000);
  std::string bytes = *s3_.bytes_of("bucket/x");
  bytes.resize(bytes.size() - 7);
  s3_.set_bytes("bucket/x", bytes);
  RecordReader reader("s3://bucket/x");
  EXPECT_THROW(while (reader.next()){}, DataLoss);
  EXPECT_EQ(reader.record_number(), 99'999U);
}

TEST_F(RecordsInStores, ALookAtTheFirstRecordIsOneGet) {
  write("s3://bucket/x", 0, 100'000);
  const int before = s3_.calls("GET");
  RecordReader reader("s3://bucket/x");
  EXPECT_EQ(reader.next(), record(0));
  EXPECT_EQ(s3_.calls("GET") - before, 1);
}

TEST_F(RecordsInStores, LinesMakeAGetPerRange) {
  std::string text;
  for (std::size_t i = 0; i < 100'000; ++i) text += record(i) + "\n";
  s3_.set_bytes("bucket/lines", text);
  const auto source = open_text_lines("s3://bucket/lines");
  std::size_t number = 0;
  for (Record read; source->next(read); ++number) ASSERT_EQ(read.bytes, record(number));
  EXPECT_EQ(number, 100'000U);
  EXPECT_LE(s3_.calls("GET"), static_cast<int>(text.size() / 8'000'000) + 1);
}

TEST_F(RecordsInStores, AReaderGoesOnWhereItWasWithoutWhatLiesBefore) {
  write("s3://bucket/x", 0, 100'000, /*write_index=*/true);
  TFRecordSource source("s3://bucket/x");
  const int before = s3_.calls("GET");
  source.seek(90'000);
  for (std::size_t i = 90'000; i < 90'100; ++i) {
    Record read;
    ASSERT_TRUE(source.next(read));
    ASSERT_EQ(read.bytes, record(i));
  }
  EXPECT_LE(s3_.calls("GET") - before, 1);
}

TEST_F(RecordsInStores, AReaderInNoOrderGetsTheFileOnce) {
  environment_.set("TMPDIR", "/tmp");
  write("s3://bucket/x", 0, 100'000, /*write_index=*/true);
  TFRecordSource source("s3://bucket/x");
  const int before = s3_.calls("GET");
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t number = i * 77'773 % 100'000;
    source.seek(number);
    Record read;
    ASSERT_TRUE(source.next(read));
    ASSERT_EQ(read.bytes, record(number));
  }
  EXPECT_LE(s3_.calls("GET") - before, 12);
}

}  // namespace
}  // namespace muster::stores
