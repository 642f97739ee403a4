#include "muster/nn/model/class_metrics.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/nn/model/metrics.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Class 2 is never predicted, and class 3 never seen.
const std::vector<std::int64_t> kLabels{0, 0, 1, 1, 2};
const std::vector<std::int64_t> kPredictions{0, 1, 1, 1, 0};
const std::vector<float> kWeights{1, 1, 1, 2, 1};

template <typename M>
M of_five(M metric) {
  metric.update(torch::tensor(kLabels), torch::tensor(kPredictions), torch::tensor(kWeights));
  return metric;
}

double average_of(ClassScore score, Average average) {
  return of_five(ClassAverage(score, average, 4)).compute();
}

TEST(ConfusionMatrix, CountsLabelsByPrediction) {
  const auto matrix = of_five(ConfusionMatrix(4));
  EXPECT_EQ(matrix.count(0, 0), 1);
  EXPECT_EQ(matrix.count(0, 1), 1);
  EXPECT_EQ(matrix.count(1, 1), 3);
  EXPECT_EQ(matrix.count(2, 0), 1);
  EXPECT_EQ(matrix.count(3, 3), 0);
  EXPECT_DOUBLE_EQ(matrix.compute(), 4.0 / 6);
  EXPECT_EQ(matrix.by_class().size(), 3U);
}

TEST(ConfusionMatrix, ShowsATableByName) {
  const auto table = of_five(ConfusionMatrix(4, {"a", "b", "c", "d"})).table();
  ASSERT_TRUE(table);
  EXPECT_THAT(table->rows, ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(table->columns, table->rows);
  EXPECT_EQ(table->at(1, 1), 3);
  EXPECT_EQ(table->at(2, 0), 1);
  EXPECT_TRUE(table->is_heat_map);
  EXPECT_THAT(of_five(ConfusionMatrix(4)).table()->rows, ElementsAre("0", "1", "2", "3"));
  EXPECT_FALSE(of_five(BalancedAccuracy(4)).table());
}

TEST(ConfusionMatrix, RefusesWhatIsNoClass) {
  ConfusionMatrix matrix(3);
  EXPECT_THAT(message_of([&] { matrix.update(torch::tensor({3}), torch::tensor({0})); }),
              HasSubstr("label 3 at row 0 is not a class: give ids in [0, 3)"));
  EXPECT_THAT(message_of([&] { matrix.update(torch::tensor({1}), torch::tensor({0.5F})); }),
              HasSubstr("prediction 0.5 at row 0"));
  EXPECT_THROW(ConfusionMatrix(0), InvalidArgument);
  EXPECT_THROW(ConfusionMatrix(3, {"a"}), InvalidArgument);
  EXPECT_THROW(matrix.merge(ConfusionMatrix(4)), InvalidArgument);
  EXPECT_THROW(ClassAverage(ClassScore::kF1, Average::kMacro, 4)
                   .merge(ClassAverage(ClassScore::kF1, Average::kMicro, 4)),
               InvalidArgument);
}

TEST(BalancedAccuracy, IsTheMeanRecallOfClassesThatAreLabels) {
  EXPECT_DOUBLE_EQ(of_five(BalancedAccuracy(4)).compute(), (0.5 + 1.0 + 0.0) / 3);
  EXPECT_EQ(BalancedAccuracy(4).compute(), 0);
  BalancedAccuracy one_class;
  one_class.update(torch::tensor({1, 1}), torch::tensor({1, 0}));
  EXPECT_DOUBLE_EQ(one_class.compute(), 0.5);
}

TEST(ClassAverage, AveragesClassesThatWereSeen) {
  EXPECT_DOUBLE_EQ(average_of(ClassScore::kPrecision, Average::kMacro), (0.5 + 0.75 + 0) / 3);
  EXPECT_DOUBLE_EQ(average_of(ClassScore::kRecall, Average::kMacro), (0.5 + 1.0 + 0) / 3);
  EXPECT_DOUBLE_EQ(average_of(ClassScore::kF1, Average::kMacro), (0.5 + 6.0 / 7 + 0) / 3);
  EXPECT_DOUBLE_EQ(average_of(ClassScore::kF1, Average::kWeighted), (2 * 0.5 + 3 * 6.0 / 7) / 6);
  EXPECT_DOUBLE_EQ(average_of(ClassScore::kF1, Average::kMicro), 4.0 / 6);
  EXPECT_EQ(ClassAverage().compute(), 0);
}

TEST(F1, IsTheHarmonicMeanOfPrecisionAndRecall) {
  F1 f1;
  EXPECT_EQ(f1.compute(), 0);
  f1.update(torch::tensor({1, 1, 0, 0, 1}), torch::tensor({1, 0, 1, 0, 1}));
  EXPECT_DOUBLE_EQ(f1.compute(), 2.0 * 2 / (2 * 2 + 1 + 1));
  F1 without_positives;
  without_positives.update(torch::tensor({0, 0}), torch::tensor({0, 1}));
  EXPECT_EQ(without_positives.compute(), 0);
}

TEST(Confusion, TakesTheCountsOfOneClassOfAMatrix) {
  auto classes = of_five(ConfusionMatrix(4)).by_class();
  Precision precision;
  precision.add(classes[1]);
  EXPECT_DOUBLE_EQ(precision.compute(), 0.75);
  F1 f1;
  f1.add(classes[1]);
  EXPECT_DOUBLE_EQ(f1.compute(), 6.0 / 7);
}

TEST(CalibrationError, IsTheDistanceOfProbabilitiesFromFrequencies) {
  CalibrationError error(3);
  EXPECT_EQ(error.compute(), 0);
  error.update(torch::tensor({0, 0, 0, 0, 1, 1, 1, 1, 1}),
               torch::tensor({0.1, 0.2, 0.3, 0.4, 0.65, 0.7, 0.8, 0.9, 1.0}, torch::kDouble));
  const auto curve = error.curve();
  ASSERT_EQ(curve.size(), 3U);
  EXPECT_NEAR(curve[0].mean_prediction, 0.2, 1e-15);
  EXPECT_NEAR(curve[1].mean_prediction, 0.525, 1e-15);
  EXPECT_NEAR(curve[2].mean_prediction, 0.85, 1e-15);
  EXPECT_EQ(curve[0].fraction_of_positives, 0);
  EXPECT_EQ(curve[1].fraction_of_positives, 0.5);
  EXPECT_EQ(curve[2].fraction_of_positives, 1);
  EXPECT_NEAR(error.compute(), (3 * 0.2 + 2 * 0.025 + 4 * 0.15) / 9, 1e-15);
  EXPECT_EQ(error.table()->rows.size(), 3U);
}

TEST(CalibrationError, LeavesEmptyBinsOutAndPutsABorderIntoTheLowerBin) {
  CalibrationError error(2);
  error.update(torch::tensor({1, 0}), torch::tensor({0.5, 0.0}, torch::kDouble));
  ASSERT_EQ(error.curve().size(), 1U);
  EXPECT_EQ(error.curve()[0].mean_prediction, 0.25);
  EXPECT_EQ(error.curve()[0].weight, 2);
  EXPECT_THROW(error.update(torch::tensor({1}), torch::tensor({1.5})), InvalidArgument);
  EXPECT_THROW(error.merge(CalibrationError(3)), InvalidArgument);
  EXPECT_THROW(CalibrationError(0), InvalidArgument);
}

}  // namespace
}  // namespace muster
