#include "muster/train/engine/not_finite.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

namespace muster {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Lines : RowNames {
  std::string of(std::int64_t row) const override {
    return "train.csv line " + std::to_string(row + 10);
  }
};

std::vector<std::optional<Batch>> batches(const at::Tensor& x) {
  const Batch good = make_batch({{"x", torch::zeros({3, 2})}}, torch::zeros({3, 1}));
  return {good, std::nullopt, make_batch({{"x", x}}, torch::zeros({3, 1}))};
}

TEST(FirstNotFinite, IsToldByFeatureReplicaAndRow) {
  EXPECT_EQ(first_not_finite(batches(torch::ones({3, 2}))), "");
  auto some = batches(torch::tensor({{1.0F, 2.0F}, {3.0F, kNan}, {kNan, 1.0F}}));
  EXPECT_EQ(first_not_finite(some), "the feature \"x\" of replica 2 is nan in row 1 of its batch");
  some[2]->row_names = std::make_shared<const Lines>();
  EXPECT_EQ(
      first_not_finite(some),
      "the feature \"x\" of replica 2 is nan in row 1 of its batch, which is train.csv line 11");
}

TEST(FirstNotFinite, IsInASliceTheRowOfTheWhole) {
  Batch batch = make_batch({{"x", torch::tensor({1.0F, 2.0F, -kInfinity})}}, torch::zeros({3, 1}));
  batch.row_names = std::make_shared<const Lines>();
  const std::vector<std::optional<Batch>> half{batch.slice(1, 3)};
  EXPECT_EQ(
      first_not_finite(half),
      "the feature \"x\" of replica 0 is -inf in row 1 of its batch, which is train.csv line 12");
}

TEST(FirstNotFinite, IsFoundInLabelsAndRaggedWeights) {
  const std::vector<std::optional<Batch>> label{
      make_batch({{"n", torch::zeros({1, 1}, torch::kLong)}}, torch::tensor({{kNan}}))};
  EXPECT_EQ(first_not_finite(label),
            "the label \"label\" of replica 0 is nan in row 0 of its batch");
  const RaggedColumn words{.values = torch::tensor({4, 5, 6}, torch::kLong),
                           .row_splits = torch::tensor({0, 2, 3}, torch::kLong),
                           .weights = torch::tensor({1.0F, 1.0F, kNan})};
  const std::vector<std::optional<Batch>> ragged{Batch{.features = {{"words", words}}}};
  EXPECT_EQ(first_not_finite(ragged),
            "the feature \"words\" of replica 0 is nan in row 1 of its batch");
}

}  // namespace
}  // namespace muster
