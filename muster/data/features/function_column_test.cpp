#include <gmock/gmock.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/data/features/column_set.h"
#include "muster/data/features/feature_column.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::HasSubstr;

at::Tensor numbers_of_input(const FeatureColumn& column, const Features& features) {
  const auto pieces = ColumnSet({column}, ColumnUse::kInputLayer).pieces(features);
  EXPECT_EQ(pieces.size(), 1U);
  return std::get<at::Tensor>(pieces.at(0).value);
}

at::Tensor ratio_of_two(const at::Tensor& x) {
  return x.select(1, 0).div(x.select(1, 1)).unsqueeze(1);
}

TEST(FunctionColumn, GetsTheNumbersOfItsSourcesSideBySide) {
  const auto column =
      function_column("ratio", {.sources = {numeric_column("gain"), numeric_column("hours")},
                                .width = 1,
                                .function = ratio_of_two});
  EXPECT_TRUE(column.is_dense());
  EXPECT_EQ(column.width(), 1);
  EXPECT_EQ(column.parse_specs().size(), 2U);
  const Features features{{"gain", torch::tensor({6.0F, 1.0F})},
                          {"hours", torch::tensor({2.0F, 4.0F})}};
  EXPECT_TRUE(at::equal(numbers_of_input(column, features), torch::tensor({{3.0F}, {0.25F}})));
}

TEST(FunctionColumn, StandsBesideOthersAndOnWhatIsOneHot) {
  const auto bucketized = bucketized_column(numeric_column("age"), {10, 20});
  const auto column = function_column(
      "twice", {.sources = {bucketized}, .function = [](const at::Tensor& x) { return x * 2; }});
  EXPECT_EQ(column.width(), 3);
  const Features features{{"age", torch::tensor({15.0F, 30.0F})}};
  const auto pieces =
      ColumnSet({numeric_column("age"), column}, ColumnUse::kInputLayer).pieces(features);
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(pieces.at(0).value),
                        torch::tensor({{15.0F, 0.0F, 2.0F, 0.0F}, {30.0F, 0.0F, 0.0F, 2.0F}})));
}

TEST(FunctionColumn, RefusesWhatCannotWork) {
  const auto same = [](const at::Tensor& x) { return x; };
  const auto words = categorical_column_with_hash_bucket("word", 10);
  EXPECT_THROW(function_column("f", {.sources = {numeric_column("x")}}), InvalidArgument);
  EXPECT_THROW(function_column("f", {.function = same}), InvalidArgument);
  EXPECT_THROW(function_column("", {.sources = {numeric_column("x")}, .function = same}),
               InvalidArgument);
  EXPECT_THAT(message_of([&] { function_column("f", {.sources = {words}, .function = same}); }),
              HasSubstr("which the column \"word\" does not give"));
  const auto wide =
      function_column("f", {.sources = {numeric_column("x")}, .width = 2, .function = same});
  const Features features{{"x", torch::tensor({1.0F, 2.0F})}};
  EXPECT_THAT(message_of([&] { numbers_of_input(wide, features); }),
              HasSubstr("must make [rows, 2]"));
}

}  // namespace
}  // namespace muster
