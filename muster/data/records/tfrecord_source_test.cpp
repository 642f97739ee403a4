#include "muster/data/records/tfrecord_source.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/data/records/record_writer.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using testing::flip_byte;
using testing::TempDir;

constexpr std::uint64_t kRecords = 500;

std::string content(std::uint64_t number) { return fmt::format("record number {}", number); }

struct Layout {
  Compression compression;
  bool index;
};

class TFRecordSourceTest : public ::testing::TestWithParam<Layout> {
 protected:
  TFRecordSourceTest() {
    RecordWriter writer(
        path(),
        {.compression = GetParam().compression, .durable = false, .write_index = GetParam().index});
    for (std::uint64_t i = 0; i < kRecords; ++i) writer.append(content(i));
    writer.close();
  }
  Path path() const { return folder_ / "records"; }

  TempDir folder_;
};

std::optional<std::string> next(RecordSource& source) {
  Record record;
  if (!source.next(record)) return std::nullopt;
  return std::string(record.bytes);
}

TEST_P(TFRecordSourceTest, GivesAllRecordsInOrder) {
  TFRecordSource source(path());
  for (std::uint64_t i = 0; i < kRecords; ++i) {
    ASSERT_EQ(source.position(), i);
    ASSERT_EQ(next(source), content(i));
  }
  EXPECT_FALSE(next(source));
}

TEST_P(TFRecordSourceTest, SeekGoesForwardAndBack) {
  TFRecordSource source(path());
  for (const std::uint64_t number : {400, 3, 3, 499, 0, 128, 127}) {
    source.seek(number);
    EXPECT_EQ(source.position(), number);
    EXPECT_EQ(next(source), content(number));
    EXPECT_EQ(source.position(), number + 1);
  }
}

TEST_P(TFRecordSourceTest, SeekBeyondTheEndGivesNothingUntilTheNextSeek) {
  TFRecordSource source(path());
  for (const std::uint64_t number : {kRecords, kRecords + 1000}) {
    source.seek(number);
    EXPECT_EQ(source.position(), number);
    EXPECT_FALSE(next(source));
  }
  source.seek(7);
  EXPECT_EQ(next(source), content(7));
}

TEST_P(TFRecordSourceTest, CountComesFromTheIndexAlone) {
  TFRecordSource source(path());
  EXPECT_EQ(source.count().has_value(), GetParam().index);
  EXPECT_EQ(source.count().value_or(kRecords), kRecords);
  EXPECT_EQ(source.random_access(),
            GetParam().index && GetParam().compression == Compression::kNone);
  EXPECT_FALSE(TFRecordSource(path(), {.use_index = false}).count());
}

INSTANTIATE_TEST_SUITE_P(Layouts, TFRecordSourceTest,
                         ::testing::Values(Layout{Compression::kNone, true},
                                           Layout{Compression::kNone, false},
                                           Layout{Compression::kGzip, true},
                                           Layout{Compression::kGzip, false}),
                         [](const auto& test) {
                           return fmt::format("{}{}", name_of(test.param.compression),
                                              test.param.index ? "WithIndex" : "WithoutIndex");
                         });

TEST(TFRecordSource, StaleIndexIsNotUsed) {
  const TempDir folder;
  for (const std::uint64_t count : {2, 3}) {
    RecordWriter writer(folder / "a", {.write_index = count == 2});
    for (std::uint64_t i = 0; i < count; ++i) writer.append(content(i));
    writer.close();
  }
  TFRecordSource source(folder / "a");
  EXPECT_FALSE(source.count());
  source.seek(2);
  EXPECT_EQ(next(source), content(2));
}

TEST(TFRecordSource, GoesOnBehindADamagedRecord) {
  const TempDir folder;
  RecordWriter writer(folder / "a");
  for (std::uint64_t i = 0; i < 3; ++i) writer.append(content(i));
  writer.close();
  flip_byte(folder / "a", 13);
  TFRecordSource source(folder / "a");
  Record record;
  EXPECT_THROW(source.next(record), DataLoss);
  EXPECT_EQ(source.position(), 1u);
  EXPECT_EQ(next(source), content(1));

  TFRecordSource lenient(folder / "a", {.reader = {.skip_bad_records = 1}});
  EXPECT_EQ(next(lenient), content(1));
  EXPECT_EQ(lenient.skipped(), 1u);
  EXPECT_EQ(lenient.position(), 2u);
}

TEST(TFRecordSource, SaysWhereARecordIs) {
  const TempDir folder;
  RecordWriter(folder / "a").close();
  EXPECT_EQ(TFRecordSource(folder / "a").where(16), (folder / "a").string() + " record 16");
}

}  // namespace
}  // namespace muster
