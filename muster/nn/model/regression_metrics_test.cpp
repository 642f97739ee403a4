#include "muster/nn/model/regression_metrics.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "muster/base/error.h"

namespace muster {
namespace {

struct Fitted {
  at::Tensor labels, predictions;
};

Fitted one_column() {
  return {torch::tensor({3.0, -0.5, 2.0, 7.0}), torch::tensor({2.5, 0.0, 2.0, 8.0})};
}

Fitted two_columns() {
  return {torch::tensor({{0.5, 1.0}, {-1.0, 1.0}, {7.0, -6.0}}),
          torch::tensor({{0.0, 2.0}, {-1.0, 2.0}, {8.0, -5.0}})};
}

template <typename M>
double value_for(const Fitted& data, const at::Tensor& weights = {}) {
  M metric;
  EXPECT_EQ(metric.compute(), 0);
  metric.update(data.labels, data.predictions, weights);
  return metric.compute();
}

TEST(RegressionMetrics, HaveTheirTextbookValues) {
  EXPECT_DOUBLE_EQ(value_for<MeanSquaredError>(one_column()), 0.375);
  EXPECT_DOUBLE_EQ(value_for<RootMeanSquaredError>(one_column()), std::sqrt(0.375));
  EXPECT_DOUBLE_EQ(value_for<MeanAbsoluteError>(one_column()), 0.5);
  EXPECT_DOUBLE_EQ(value_for<MeanAbsolutePercentageError>(one_column()),
                   (0.5 / 3 + 0.5 / 0.5 + 0 + 1.0 / 7) / 4);
  EXPECT_DOUBLE_EQ(value_for<R2>(one_column()), 1 - 1.5 / 29.1875);
}

TEST(RegressionMetrics, AverageTheValuesOfColumns) {
  EXPECT_DOUBLE_EQ(value_for<MeanSquaredError>(two_columns()), (1.25 / 3 + 1) / 2);
  EXPECT_DOUBLE_EQ(value_for<RootMeanSquaredError>(two_columns()), (std::sqrt(1.25 / 3) + 1) / 2);
  EXPECT_DOUBLE_EQ(value_for<MeanAbsoluteError>(two_columns()), (1.5 / 3 + 1) / 2);
  EXPECT_NEAR(value_for<R2>(two_columns()), (1 - 1.25 / (217.0 / 6) + 1 - 3 / (98.0 / 3)) / 2,
              1e-15);
}

TEST(RegressionMetrics, WeighRows) {
  const auto weights = torch::tensor({2.0, 0.0, 1.0, 1.0});
  EXPECT_DOUBLE_EQ(value_for<MeanSquaredError>(one_column(), weights), (2 * 0.25 + 0 + 1) / 4);
  // The mean of the labels is (6 + 2 + 7) / 4.
  EXPECT_DOUBLE_EQ(value_for<R2>(one_column(), weights),
                   1 - 1.5 / (2 * 0.5625 + 1.75 * 1.75 + 3.25 * 3.25));
  const auto of_values = torch::tensor({{1.0, 0.0}, {1.0, 0.0}, {1.0, 2.0}});
  EXPECT_DOUBLE_EQ(value_for<MeanAbsoluteError>(two_columns(), of_values), (0.5 + 1) / 2);
  EXPECT_EQ(value_for<MeanAbsoluteError>(one_column(), torch::zeros({4})), 0);
}

TEST(R2, KeepsItsDigitsFarFromZero) {
  const auto small = torch::tensor({0.0, 1.0, 2.0, 3.0}, torch::kDouble);
  for (const double offset : {0.0, 8e6, 1e12}) {
    EXPECT_DOUBLE_EQ(value_for<R2>({small + offset, small + offset + 0.5}), 0.8) << offset;
  }
}

TEST(R2, IsDefinedWhereLabelsAreEqual) {
  const auto labels = torch::full({3}, 0.1F);
  const auto weights = torch::tensor({0.3F, 1.7F, 1e-3F});
  EXPECT_EQ(value_for<R2>({labels, labels}, weights), 1);
  EXPECT_EQ(value_for<R2>({labels, labels + 1}, weights), 0);
  EXPECT_TRUE(std::isnan(value_for<R2>({torch::ones({1}), torch::ones({1})})));
}

TEST(RegressionMetrics, TakeNothingOfAnEmptyBatchAndRefuseOtherColumns) {
  R2 metric;
  metric.update(torch::empty({0, 2}), torch::empty({0, 2}));
  EXPECT_EQ(metric.compute(), 0);
  metric.update(torch::ones({2}), torch::ones({2}));
  EXPECT_THROW(metric.update(torch::ones({2, 2}), torch::ones({2, 2})), InvalidArgument);
  R2 wide;
  wide.update(torch::ones({2, 2}), torch::ones({2, 2}));
  EXPECT_THROW(metric.merge(wide), InvalidArgument);
  EXPECT_THROW(metric.merge(MeanSquaredError()), InvalidArgument);
  EXPECT_THROW(metric.update(torch::ones({2}), torch::ones({3})), InvalidArgument);
}

TEST(MeanAbsolutePercentageError, TakesALabelOfZeroAsTheSmallestStep) {
  EXPECT_DOUBLE_EQ(value_for<MeanAbsolutePercentageError>({torch::zeros({1}), torch::ones({1})}),
                   0x1p52);
}

}  // namespace
}  // namespace muster
