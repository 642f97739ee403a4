#include "muster/data/features/table_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <string>
#include <vector>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/data/features/collate.h"
#include "muster/data/tables/parquet.h"
#include "muster/testing/message_of.h"
#include "muster/testing/parquet_samples.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

/// These rows of the sample, from blocks of 8.
std::vector<TableRow> sample_rows(const std::vector<std::uint32_t>& wanted,
                                  std::vector<std::string> columns) {
  auto owner =
      std::make_shared<const std::string>(base64_decode(testing::parquet_samples::kDuckdbSnappy));
  const std::string_view bytes = *owner;
  const auto reader = open_parquet(bytes, std::move(owner), "x.parquet",
                                   {.columns = std::move(columns), .block_rows = 8});
  std::vector<std::shared_ptr<const TableBlock>> blocks;
  while (auto block = reader->next()) blocks.push_back(std::move(block));
  std::vector<TableRow> rows;
  for (const std::uint32_t row : wanted) rows.push_back({blocks[row / 8], row % 8});
  return rows;
}

TEST(TableFeatures, AreColumnsOfTheRowsInTheirOrder) {
  const auto features =
      to_features(sample_rows({30, 3, 4, 5, 15}, {"ratio", "flag", "small", "address.city"}));
  EXPECT_TRUE(at::equal(features.tensor("ratio"), at::tensor({7.5F, 0.75F, 1.0F, 1.25F, 3.75F})));
  EXPECT_TRUE(at::equal(features.tensor("flag"), at::tensor({1, 1, 0, 0, 1}, at::kInt)));
  EXPECT_TRUE(at::equal(features.tensor("small"), at::tensor({-4, 5, 1, -3, 1}, at::kInt)));
  EXPECT_THAT(features.strings("address.city").values(), ElementsAre("c0", "c0", "c1", "c2", "c0"));
}

TEST(TableFeatures, OfListsAreRagged) {
  const auto features = to_features(sample_rows({3, 4, 7, 1}, {"tags", "pairs.value"}));
  const StringColumn& tags = features.strings("tags");
  EXPECT_THAT(tags.row(0), ElementsAre("t3", "t4", "t5"));
  EXPECT_THAT(tags.row(1), ElementsAre());
  EXPECT_THAT(tags.row(2), ElementsAre("t7", "t8", "t0"));
  EXPECT_THAT(tags.row(3), ElementsAre("t1"));
  const RaggedColumn& values = features.ids("pairs.value");
  EXPECT_TRUE(at::equal(values.values, at::tensor({3, 4, 7, 1}, at::kLong)));
  EXPECT_TRUE(at::equal(values.row_splits, at::tensor({0, 1, 2, 3, 4}, at::kLong)));
}

TEST(TableFeatures, TakeDefaultsForMissingValues) {
  TableDefaults defaults{{"wide", std::int64_t{-1}}, {"exact", 0.5}, {"word", "none"}};
  auto rows = sample_rows({0, 1, 2, 101}, {"wide", "exact", "word"});
  const auto features = to_features(rows, defaults);
  defaults.clear();
  rows.clear();
  EXPECT_TRUE(
      at::equal(features.tensor("wide"), at::tensor({0L, -1L, 20'000'000'038L, -1L}, at::kLong)));
  EXPECT_TRUE(
      at::equal(features.tensor("exact"), at::tensor({0.0, 0.125, 0.25, 0.5}, at::kDouble)));
  EXPECT_THAT(features.strings("word").values(), ElementsAre("word 0", "word 1", "none", "word 3"));
}

TEST(TableFeatures, NameTheRowOfAMissingValueWithoutADefault) {
  const auto rows = sample_rows({8, 9, 12}, {"wide", "tags"});
  EXPECT_THAT(message_of([&] { to_features(rows); }),
              HasSubstr("x.parquet row 9: `wide` is missing; give the column a default"));
  EXPECT_THAT(message_of([&] {
                to_features(sample_rows({8, 10}, {"tags"}));
              }),
              HasSubstr("x.parquet row 10: `tags` is missing"));
}

TEST(TableFeatures, RefuseDefaultsThatDoNotFit) {
  const auto rows = sample_rows({0}, {"small"});
  EXPECT_THROW(to_features(rows, {{"small", std::int64_t{1} << 40}}), InvalidArgument);
  EXPECT_THROW(to_features(rows, {{"small", "x"}}), InvalidArgument);
  EXPECT_THROW(to_features(rows, {{"smal", std::int64_t{1}}}), NotFound);
  EXPECT_THROW(to_features(std::vector<TableRow>{}), InvalidArgument);
}

TEST(TableFeatures, RefuseListsOfLists) {
  EXPECT_THAT(message_of([] { to_features(sample_rows({0}, {"nested"})); }),
              HasSubstr("`nested` has lists of lists"));
}

}  // namespace
}  // namespace muster
