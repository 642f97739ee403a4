#include "muster/data/records/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "muster/base/error.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_bytes;

std::string header(char type, const std::vector<std::uint32_t>& shape) {
  std::string out{0, 0, type, static_cast<char>(shape.size())};
  for (const std::uint32_t dimension : shape) {
    for (int shift = 24; shift >= 0; shift -= 8)
      out.push_back(static_cast<char>(dimension >> shift));
  }
  return out;
}

std::string idx_message(const std::string& bytes) {
  try {
    parse_idx(bytes, "x.idx");
  } catch (const DataLoss& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Idx, ReadsAFileItemByItem) {
  const TempDir folder;
  write_bytes(folder / "x.idx", header(0x08, {2, 3}) + "abcdef");
  const IdxArray array = read_idx(folder / "x.idx");
  EXPECT_EQ(array.type, IdxType::kUint8);
  EXPECT_THAT(array.shape, ElementsAre(2, 3));
  EXPECT_EQ(array.item(0), "abc");
  EXPECT_EQ(array.item(1), "def");
}

TEST(Idx, TurnsBigEndianValuesRound) {
  const auto shorts = parse_idx(header(0x0B, {2}) + std::string("\x01\x02\xFF\xFE", 4), "x");
  std::int16_t first = 0;
  std::memcpy(&first, shorts.item(0).data(), 2);
  EXPECT_EQ(first, 0x0102);
  const auto doubles = parse_idx(header(0x0E, {1}) + std::string("\x3F\xF8\0\0\0\0\0\0", 8), "x");
  double value = 0;
  std::memcpy(&value, doubles.item(0).data(), 8);
  EXPECT_EQ(value, 1.5);
  EXPECT_EQ(parse_idx(header(0x09, {1}) + "a", "x").type, IdxType::kInt8);
  EXPECT_EQ(parse_idx(header(0x0C, {1}) + "abcd", "x").type, IdxType::kInt32);
  EXPECT_EQ(parse_idx(header(0x0D, {1}) + "abcd", "x").type, IdxType::kFloat);
}

TEST(Idx, ReadsAnArrayOfNothing) {
  const auto array = parse_idx(header(0x08, {0, 28, 28}), "x");
  EXPECT_EQ(array.items(), 0U);
  EXPECT_EQ(array.item_bytes(), 0U);
}

TEST(Idx, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(idx_message(""), HasSubstr("x.idx: truncated: the magic number"));
  EXPECT_THAT(idx_message("PNG!abcd"),
              HasSubstr("not an IDX file: magic number 0x504e4721 at offset 0"));
  EXPECT_THAT(idx_message(header(0x0A, {1}) + "a"), HasSubstr("type 0x0a at offset 2"));
  EXPECT_THAT(idx_message(header(0x08, {})), HasSubstr("without dimensions at offset 3"));
  EXPECT_THAT(idx_message(header(0x08, {2, 3}).substr(0, 10)), HasSubstr("truncated: the header"));
  EXPECT_THAT(idx_message(header(0x08, {2, 3}) + "abcde"),
              HasSubstr("the data takes 6 bytes from offset 12, but only 5 are there"));
  EXPECT_THAT(idx_message(header(0x08, {2, 3}) + "abcdefg"),
              HasSubstr("more bytes than the header says"));
}

TEST(Idx, TakesNoMemoryForDimensionsThatAreNotThere) {
  EXPECT_THAT(idx_message(header(0x08, {0xFFFFFFFF, 0xFFFF}) + "abc"),
              HasSubstr("but only 3 are there"));
  EXPECT_THAT(idx_message(header(0x0E, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF})),
              HasSubstr("more than can be counted"));
}

std::vector<std::size_t> count_labels(const Path& path) {
  const IdxArray labels = read_idx(path);
  std::vector<std::size_t> counts(10);
  for (const char label : labels.data) ++counts.at(static_cast<std::uint8_t>(label));
  return counts;
}

TEST(Idx, ReadsRealMnistWithItsPublishedCounts) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  EXPECT_THAT(count_labels(data / "mnist/train-labels-idx1-ubyte.gz"),
              ElementsAre(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949));
  EXPECT_THAT(count_labels(data / "mnist/t10k-labels-idx1-ubyte.gz"),
              ElementsAre(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009));
  const IdxArray train = read_idx(data / "mnist/train-images-idx3-ubyte.gz");
  EXPECT_THAT(train.shape, ElementsAre(60'000, 28, 28));
  EXPECT_EQ(train.item(59'999).size(), 784U);
  const IdxArray subset = read_idx(data / "mnist/subset/t10k-images-idx3-ubyte.gz");
  EXPECT_THAT(subset.shape, ElementsAre(200, 28, 28));
}

}  // namespace
}  // namespace muster
