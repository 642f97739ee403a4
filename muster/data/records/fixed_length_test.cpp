#include "muster/data/records/fixed_length.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_bytes;

void write_gzip(const Path& path, const std::string& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

std::vector<std::string> records_of(RecordSource& source) {
  std::vector<std::string> records;
  for (Record record; source.next(record);) records.emplace_back(record.bytes);
  return records;
}

TEST(FixedLength, CutsAPlainFileBetweenHeaderAndFooter) {
  const TempDir folder;
  write_bytes(folder / "x.bin", "HHaaabbbcccF");
  const auto source = open_fixed_length(folder / "x.bin",
                                        {.record_bytes = 3, .header_bytes = 2, .footer_bytes = 1});
  EXPECT_TRUE(source->random_access());
  EXPECT_EQ(source->count(), 3U);
  EXPECT_THAT(records_of(*source), ElementsAre("aaa", "bbb", "ccc"));
  source->seek(1);
  EXPECT_THAT(records_of(*source), ElementsAre("bbb", "ccc"));
  source->seek(50);
  EXPECT_THAT(records_of(*source), ElementsAre());
  EXPECT_THAT(source->where(2), HasSubstr("x.bin record 2"));
}

TEST(FixedLength, CutsACompressedFileTheSameWay) {
  const TempDir folder;
  write_gzip(folder / "x.bin.gz", "HHaaabbbcccF");
  const auto source = open_fixed_length(folder / "x.bin.gz",
                                        {.record_bytes = 3, .header_bytes = 2, .footer_bytes = 1});
  EXPECT_FALSE(source->random_access());
  EXPECT_THAT(records_of(*source), ElementsAre("aaa", "bbb", "ccc"));
  source->seek(2);
  EXPECT_THAT(records_of(*source), ElementsAre("ccc"));
  source->seek(0);
  EXPECT_EQ(records_of(*source).size(), 3U);
}

TEST(FixedLength, KeepsRecordsOfManyBlocksAlive) {
  const TempDir folder;
  std::string bytes;
  for (int i = 0; i < 1'000'000; ++i) bytes += fmt::format("{:07}", i);
  write_gzip(folder / "x.gz", bytes);
  auto source = open_fixed_length(folder / "x.gz", {.record_bytes = 7});
  std::vector<Record> records;
  for (Record record; source->next(record);) records.push_back(record);
  source.reset();
  ASSERT_EQ(records.size(), 1'000'000U);
  for (std::size_t i = 0; i < records.size(); i += 997) {
    ASSERT_EQ(records[i].bytes, fmt::format("{:07}", i));
  }
}

TEST(FixedLength, NamesTheSizesOfAFileThatDoesNotFit) {
  const TempDir folder;
  write_bytes(folder / "x.bin", "aaabbbcc");
  try {
    open_fixed_length(folder / "x.bin", {.record_bytes = 3});
    FAIL();
  } catch (const DataLoss& error) {
    EXPECT_THAT(error.what(), HasSubstr("x.bin: 8 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("records of 3"));
  }
  EXPECT_THROW(open_fixed_length(folder / "x.bin", {.record_bytes = 3, .header_bytes = 9}),
               DataLoss);
  EXPECT_THROW(
      open_fixed_length(folder / "x.bin",
                        {.record_bytes = 3, .header_bytes = 1, .footer_bytes = UINT64_MAX - 3}),
      DataLoss);
  write_gzip(folder / "x.gz", "aaabbbcc");
  const auto source = open_fixed_length(folder / "x.gz", {.record_bytes = 3});
  Record record;
  EXPECT_TRUE(source->next(record));
  EXPECT_TRUE(source->next(record));
  EXPECT_THROW(source->next(record), DataLoss);
  EXPECT_THROW(source->next(record), DataLoss);
}

TEST(FixedLength, RefusesALengthOfZero) {
  EXPECT_THROW(open_fixed_length("x", {}), InvalidArgument);
}

TEST(FixedLength, TakesNoMemoryForALengthThatIsNotThere) {
  const TempDir folder;
  write_gzip(folder / "x.gz", "abc");
  const auto source = open_fixed_length(folder / "x.gz", {.record_bytes = std::uint64_t{1} << 50});
  Record record;
  EXPECT_THROW(source->next(record), DataLoss);
}

}  // namespace
}  // namespace muster
