#include "muster/data/features/parse_examples.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <memory>

#include "muster/base/error.h"
#include "muster/data/records/example_builder.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

Record example(float x, std::int64_t label, const std::string& word) {
  ExampleBuilder builder;
  builder.add_float("x", x).add_int("label", label).add_bytes("word", word);
  auto bytes = std::make_shared<const std::string>(builder.serialize());
  return {.bytes = *bytes, .owner = bytes};
}

const FeatureSpecs kSpecs{{"x", FixedLen{.kind = FeatureKind::kFloat, .shape = {1}}},
                          {"label", FixedLen{.kind = FeatureKind::kInt64, .shape = {1}}},
                          {"word", FixedLen{.kind = FeatureKind::kBytes, .shape = {1}}}};

TEST(ParseExamples, MakesABatchThatOutlivesTheRecords) {
  Batch batch;
  {
    const std::vector<Record> records{example(1.5F, 3, "one"), example(2.5F, 4, "two")};
    batch = parse_examples(kSpecs)(records);
  }
  EXPECT_TRUE(torch::equal(batch.features.tensor("x"), torch::tensor({{1.5F}, {2.5F}})));
  EXPECT_TRUE(torch::equal(batch.labels.tensor("label"), torch::tensor({{3}, {4}}, torch::kLong)));
  EXPECT_THAT(batch.features.strings("word").row(1), ElementsAre("two"));
}

TEST(ParseExamples, LeavesAFeatureWhereItIsNoLabelOfTheSpecs) {
  const std::vector<Record> records{example(1.5F, 3, "one")};
  const FeatureSpecs without{{"x", FixedLen{.kind = FeatureKind::kFloat, .shape = {1}}}};
  EXPECT_EQ(parse_examples(without)(records).features.names(), "x");
  const Batch batch = parse_examples(kSpecs, {"x"})(records);
  EXPECT_EQ(batch.features.names(), "label, word");
  EXPECT_EQ(batch.labels.names(), "x");
}

TEST(ParseExamples, RefusesRecordsWithoutAFeature) {
  const std::vector<Record> records{example(1.5F, 3, "one")};
  const auto parse =
      parse_examples({{"missing", FixedLen{.kind = FeatureKind::kFloat, .shape = {1}}}});
  EXPECT_THROW(parse(records), InvalidArgument);
}

}  // namespace
}  // namespace muster
