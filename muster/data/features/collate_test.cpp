#include "muster/data/features/collate.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "muster/base/error.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(TensorOf, TakesTheVectorWithoutCopying) {
  std::vector<float> values{1, 2, 3, 4};
  const float* const memory = values.data();
  const auto tensor = tensor_of(std::move(values), {2, 2});
  EXPECT_EQ(tensor.data_ptr<float>(), memory);
  EXPECT_TRUE(torch::equal(tensor, torch::tensor({{1.0F, 2.0F}, {3.0F, 4.0F}})));
  EXPECT_THROW(tensor_of(std::vector<float>{1, 2}, {3}), InvalidArgument);
  EXPECT_EQ(tensor_of(std::vector<float>{}, {0, 5}).size(1), 5);
}

TEST(ToFeatures, TurnsParsedColumnsIntoTensorsStringsAndRaggedColumns) {
  const FeatureSpecs specs{{"pixel", FixedLen{.kind = FeatureKind::kFloat, .shape = {2}}},
                           {"label", FixedLen{.kind = FeatureKind::kInt64}},
                           {"tags", VarLen{.kind = FeatureKind::kBytes}},
                           {"ids", VarLen{.kind = FeatureKind::kInt64}}};
  ParsedColumns columns;
  columns.rows = 2;
  columns.columns = {
      {.key = "pixel", .values = std::vector<float>{1, 2, 3, 4}},
      {.key = "label", .values = std::vector<std::int64_t>{5, 6}},
      {.key = "tags", .values = std::vector<std::string_view>{"a", "b"}, .row_splits = {0, 0, 2}},
      {.key = "ids", .values = std::vector<std::int64_t>{7, 8, 9}, .row_splits = {0, 1, 3}}};
  const auto batch = split_labels(to_features(std::move(columns), specs, nullptr));
  EXPECT_EQ(batch.features.names(), "pixel, tags, ids");
  EXPECT_THAT(batch.features.tensor("pixel").sizes().vec(), ElementsAre(2, 2));
  EXPECT_TRUE(torch::equal(batch.labels.tensor("label"), torch::tensor({5, 6}, torch::kLong)));
  EXPECT_THAT(batch.features.strings("tags").row(1), ElementsAre("a", "b"));
  EXPECT_TRUE(
      torch::equal(batch.features.ids("ids").row_splits, torch::tensor({0, 1, 3}, torch::kLong)));
}

TEST(ToFeatures, RejectsSpecsThatTheColumnsWereNotParsedWith) {
  ParsedColumns columns;
  columns.columns = {{.key = "a", .values = std::vector<float>{}}};
  EXPECT_THROW(to_features(std::move(columns), {{"b", FixedLen{}}}, nullptr), InvalidArgument);
  EXPECT_THROW(to_features(ParsedColumns{}, {{"b", FixedLen{}}}, nullptr), InvalidArgument);
}

TEST(ToFeatures, KeepsTheTextOfCsvRowsAlive) {
  const CsvDecoder decoder(
      {CsvField::float32("age"), CsvField::string("work"), CsvField::ignored("x")});
  auto text = std::make_shared<const std::string>("39,\"State \"\"gov\"\"\",1");
  const std::weak_ptr<const std::string> watch = text;
  Features features;
  {
    const std::vector<std::string_view> rows{*text};
    features = to_features(decoder.decode(rows), std::move(text));
  }
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(features.names(), "age, work");
  EXPECT_EQ(features.tensor("age").item<float>(), 39.0F);
  EXPECT_THAT(features.strings("work").values(), ElementsAre("State \"gov\""));
}

}  // namespace
}  // namespace muster
