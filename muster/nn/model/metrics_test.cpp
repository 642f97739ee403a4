#include "muster/nn/model/metrics.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/nn/model/metric_of_sums.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

struct Scored {
  at::Tensor labels, predictions, weights;
};

// Predictions that lean towards their labels; every tenth lies on a threshold.
Scored scored(std::int64_t count, std::uint64_t key) {
  Random random(key);
  Scored out{torch::empty({count}), torch::empty({count}), torch::empty({count})};
  for (std::int64_t i = 0; i < count; ++i) {
    const bool positive = random.coin(0.3);
    const double score = std::clamp(0.5 * random.uniform() + (positive ? 0.4 : 0.1), 0.0, 1.0);
    out.labels[i] = positive ? 1.0F : 0.0F;
    out.predictions[i] =
        i % 10 == 0 ? static_cast<float>(random.below(200)) / 199.0F : static_cast<float>(score);
    out.weights[i] = static_cast<float>(random.uniform(0.1, 3.0));
  }
  return out;
}

// The definition, one comparison a value and threshold.
double slow_auc(const Scored& data, Curve curve) {
  const double e = 1e-6;
  std::vector<double> x, y;
  const auto positive = data.labels.gt(0).to(torch::kDouble);
  const auto negative = 1 - positive;
  for (int i = 0; i < 200; ++i) {
    double threshold = i / 199.0;
    if (i == 0) threshold = -1e-7;
    if (i == 199) threshold = 1 + 1e-7;
    const auto above = data.predictions.gt(static_cast<float>(threshold)).to(torch::kDouble);
    const auto weights = data.weights.to(torch::kDouble);
    const double tp = (positive * above * weights).sum().item<double>();
    const double fp = (negative * above * weights).sum().item<double>();
    const double fn = (positive * (1 - above) * weights).sum().item<double>();
    const double tn = (negative * (1 - above) * weights).sum().item<double>();
    const double recall = (tp + e) / (tp + fn + e);
    x.push_back(curve == Curve::kRoc ? fp / (fp + tn + e) : recall);
    y.push_back(curve == Curve::kRoc ? recall : (tp + e) / (tp + fp + e));
  }
  double area = 0;
  for (int i = 0; i < 199; ++i) area += (x[i] - x[i + 1]) * (y[i] + y[i + 1]) / 2;
  return area;
}

TEST(Mean, WeighsValuesAndBroadcastsOneWeightARow) {
  Mean mean;
  EXPECT_EQ(mean.compute(), 0.0);
  mean.update(torch::tensor({{1.0F, 3.0F}, {10.0F, 20.0F}}), torch::tensor({{1.0F}, {0.5F}}));
  EXPECT_DOUBLE_EQ(mean.compute(), (1.0 + 3.0 + 5.0 + 10.0) / 3.0);
  EXPECT_THROW(mean.update(torch::ones({3}), torch::ones({2})), InvalidArgument);
}

TEST(Accuracy, ComparesWhateverTheTypesAndShapes) {
  Accuracy accuracy;
  accuracy.update(torch::tensor({{1}, {0}, {2}}), torch::tensor({1.0F, 1.0F, 2.0F}));
  EXPECT_DOUBLE_EQ(accuracy.compute(), 2.0 / 3.0);
  EXPECT_THROW(accuracy.update(torch::ones({2}), torch::ones({3})), InvalidArgument);
}

TEST(AccuracyBaseline, IsTheShareOfTheMoreFrequentClass) {
  AccuracyBaseline baseline;
  baseline.update(torch::tensor({0.0F, 0.0F, 0.0F, 1.0F}));
  EXPECT_DOUBLE_EQ(baseline.compute(), 0.75);
}

TEST(PrecisionAndRecall, AreZeroWithoutADenominator) {
  EXPECT_EQ(Precision().compute(), 0.0);
  EXPECT_EQ(Recall().compute(), 0.0);
}

TEST(PrecisionAndRecall, CountWhatIsAboveTheThreshold) {
  const auto labels = torch::tensor({1, 0, 1, 1});
  const auto predictions = torch::tensor({0.9F, 0.8F, 0.5F, 0.1F});
  Precision precision;
  precision.update_above(labels, predictions, 0.5F);
  EXPECT_DOUBLE_EQ(precision.compute(), 0.5);
  Recall recall;
  recall.update_above(labels, predictions, 0.5F);
  EXPECT_DOUBLE_EQ(recall.compute(), 1.0 / 3.0);
}

TEST(TopK, CountsLabelsAmongTheHighestScores) {
  TopK top(2);
  top.update(torch::tensor({0, 2, 1}),
             torch::tensor({{3.0F, 2.0F, 1.0F}, {3.0F, 2.0F, 1.0F}, {1.0F, 1.0F, 1.0F}}));
  EXPECT_DOUBLE_EQ(top.compute(), 2.0 / 3.0);
  EXPECT_THROW(top.update(torch::tensor({3}), torch::ones({1, 3})), InvalidArgument);
  EXPECT_THROW(TopK(0), InvalidArgument);
}

TEST(PrecisionAndRecallAtK, LookAtTheHighestScores) {
  const auto labels = torch::tensor({{1, 0, 1}, {0, 0, 1}});
  const auto scores = torch::tensor({{0.9F, 0.8F, 0.1F}, {0.1F, 0.1F, 0.7F}});
  const auto weights = torch::tensor({1.0F, 3.0F});
  PrecisionAtK precision(2);
  RecallAtK recall(2);
  EXPECT_EQ(precision.compute(), 0);
  precision.update(labels, scores, weights);
  recall.update(labels, scores, weights);
  EXPECT_DOUBLE_EQ(precision.compute(), (1.0 + 3.0) / (2 * 1.0 + 2 * 3.0));
  EXPECT_DOUBLE_EQ(recall.compute(), (1.0 + 3.0) / (2 * 1.0 + 1 * 3.0));
  PrecisionAtK of_ids(1);
  of_ids.update(torch::tensor({{1}, {2}}), scores);
  EXPECT_DOUBLE_EQ(of_ids.compute(), 0.5);
}

TEST(PrecisionAndRecallAtK, OrderEqualScoresAndNaN) {
  PrecisionAtK precision(2);
  precision.update(torch::tensor({{1, 1, 0}, {1, 0, 1}}),
                   torch::tensor({{0.5F, 0.5F, 0.5F}, {1.0F, NAN, 0.0F}}));
  EXPECT_DOUBLE_EQ(precision.compute(), 1);
  RecallAtK recall(1);
  recall.update(torch::tensor({{0, 0, 0}}), torch::ones({1, 3}));
  EXPECT_EQ(recall.compute(), 0);
  EXPECT_THROW(PrecisionAtK(4).update(torch::tensor({0}), torch::ones({1, 3})), InvalidArgument);
  EXPECT_THROW(precision.update(torch::tensor({3}), torch::ones({1, 3})), InvalidArgument);
  EXPECT_THROW(precision.update(torch::ones({2, 2}), torch::ones({2, 3})), InvalidArgument);
  EXPECT_THROW(precision.merge(PrecisionAtK(3)), InvalidArgument);
}

TEST(Perplexity, IsEToTheMeanCrossEntropy) {
  Perplexity perplexity;
  EXPECT_EQ(perplexity.compute(), 0);
  perplexity.update(torch::tensor({std::log(2.0), std::log(8.0)}, torch::kDouble));
  EXPECT_DOUBLE_EQ(perplexity.compute(), 4);
}

TEST(Auc, AgreesWithComparingEveryValueToEveryThreshold) {
  const auto data = scored(500, 1);
  for (const auto curve : {Curve::kRoc, Curve::kPrecisionRecall}) {
    Auc auc(curve);
    auc.update(data.labels, data.predictions, data.weights);
    EXPECT_NEAR(auc.compute(), slow_auc(data, curve), 1e-12);
  }
}

TEST(Auc, TakesTheEndsOfTheUnitInterval) {
  Auc auc;
  auc.update(torch::tensor({1, 1, 0, 0}), torch::tensor({1.0F, 1.0F, 0.0F, 0.0F}));
  EXPECT_NEAR(auc.compute(), 1.0, 1e-5);
  EXPECT_THROW(auc.update(torch::tensor({1}), torch::tensor({1.5F})), InvalidArgument);
  EXPECT_THROW(auc.update(torch::tensor({1}), torch::tensor({NAN})), InvalidArgument);
}

TEST(Auc, InterpolatesPrecisionCarefullyWhenAsked) {
  // One of each class in one bucket: precision is 0.5 all along, where a trapezoid that starts at
  // precision 1 with nothing recalled would say 0.75.
  const auto labels = torch::tensor({1, 0});
  const auto predictions = torch::tensor({0.5F, 0.5F});
  Auc careful(Curve::kPrecisionRecall, true);
  careful.update(labels, predictions);
  EXPECT_NEAR(careful.compute(), 0.5, 1e-9);
  Auc trapezoid(Curve::kPrecisionRecall);
  trapezoid.update(labels, predictions);
  EXPECT_NEAR(trapezoid.compute(), 0.75, 1e-5);
}

TEST(ExactAuc, IsTheShareOfPairsInTheRightOrder) {
  ExactAuc auc;
  // Pairs (positive, negative): 0.8 > 0.3, 0.8 > 0.5, 0.5 > 0.3, 0.5 = 0.5.
  auc.update(torch::tensor({1, 1, 0, 0}), torch::tensor({0.8F, 0.5F, 0.3F, 0.5F}));
  EXPECT_DOUBLE_EQ(auc.compute(), 3.5 / 4.0);
}

TEST(ExactAuc, OfPrecisionAndRecallIsTheAveragePrecision) {
  ExactAuc auc(Curve::kPrecisionRecall);
  auc.update(torch::tensor({1, 0, 1}), torch::tensor({3.0F, 2.0F, 1.0F}));
  EXPECT_DOUBLE_EQ(auc.compute(), (1.0 + 2.0 / 3.0) / 2.0);
  EXPECT_EQ(ExactAuc().compute(), 0.0);
}

TEST(ExactAuc, IsWhatThe200ThresholdsApproximate) {
  const auto data = scored(3000, 2);
  ExactAuc exact;
  exact.update(data.labels, data.predictions, data.weights);
  Auc bucketed;
  bucketed.update(data.labels, data.predictions, data.weights);
  EXPECT_NEAR(exact.compute(), bucketed.compute(), 1e-3);
}

MetricSet all_metrics(const Scored& data) {
  MetricSet set;
  set.add("mean", Mean()).update(data.predictions, data.weights);
  set.add("accuracy", Accuracy()).update(data.labels, data.predictions.gt(0.5), data.weights);
  set.add("baseline", AccuracyBaseline()).update(data.labels, data.weights);
  set.add("precision", Precision()).update_above(data.labels, data.predictions, 0.5F, data.weights);
  set.add("recall", Recall()).update_above(data.labels, data.predictions, 0.5F, data.weights);
  set.add("auc", Auc()).update(data.labels, data.predictions, data.weights);
  set.add("auc_pr", Auc(Curve::kPrecisionRecall, true))
      .update(data.labels, data.predictions, data.weights);
  set.add("exact", ExactAuc()).update(data.labels, data.predictions, data.weights);
  const auto both = data.predictions.unsqueeze(1).repeat({1, 2});
  const auto decisions = data.predictions.gt(0.5);
  set.add("top", TopK(1)).update(data.labels, both);
  set.add("precision_at", PrecisionAtK(2)).update(data.labels, both, data.weights);
  set.add("recall_at", RecallAtK(1)).update(data.labels, both, data.weights);
  set.add("perplexity", Perplexity()).update(data.predictions, data.weights);
  set.add("f1", F1()).update(data.labels, decisions, data.weights);
  set.add("confusion", ConfusionMatrix(2, {"no", "yes"}))
      .update(data.labels, decisions, data.weights);
  set.add("balanced", BalancedAccuracy()).update(data.labels, decisions, data.weights);
  set.add("f1_weighted", ClassAverage(ClassScore::kF1, Average::kWeighted))
      .update(data.labels, decisions, data.weights);
  set.add("calibration", CalibrationError()).update(data.labels, data.predictions, data.weights);
  set.add("mse", MeanSquaredError()).update(data.labels, data.predictions, data.weights);
  set.add("rmse", RootMeanSquaredError()).update(data.labels, data.predictions, data.weights);
  set.add("mae", MeanAbsoluteError()).update(data.labels, data.predictions, data.weights);
  set.add("mape", MeanAbsolutePercentageError())
      .update(data.labels, data.predictions, data.weights);
  set.add("r2", R2()).update(data.labels, data.predictions, data.weights);
  return set;
}

TEST(MetricSet, HasTheSameBytesHoweverBatchesWereSpreadAndMerged) {
  const auto data = scored(600, 3);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return all_metrics({data.labels.slice(0, begin, end), data.predictions.slice(0, begin, end),
                        data.weights.slice(0, begin, end)});
  };
  const auto whole = part(0, 600);
  MetricSet forward = part(0, 1);
  for (const auto& other : {part(1, 250), part(250, 599), part(599, 600)}) forward.merge(other);
  MetricSet tail = part(250, 600);
  MetricSet backward;
  backward.merge(tail);
  backward.merge(part(100, 250));
  backward.merge(part(0, 100));
  EXPECT_EQ(whole.to_bytes(), forward.to_bytes());
  EXPECT_EQ(whole.to_bytes(), backward.to_bytes());
  EXPECT_EQ(whole.compute(), backward.compute());
}

TEST(MetricSet, ComesBackFromItsBytes) {
  const auto set = all_metrics(scored(100, 4));
  auto back = MetricSet::from_bytes(set.to_bytes());
  EXPECT_EQ(back.compute(), set.compute());
  back.merge(set);
  EXPECT_EQ(back.at("mean").compute(), set.at("mean").compute());
}

TEST(MetricSet, RejectsBytesThatAreCutOffOrGoOn) {
  const auto bytes = all_metrics(scored(20, 5)).to_bytes();
  for (std::size_t size = 0; size < bytes.size(); size += 97) {
    EXPECT_THROW(MetricSet::from_bytes(bytes.substr(0, size)), Error) << size;
  }
  EXPECT_THROW(MetricSet::from_bytes(bytes + "x"), DataLoss);
}

TEST(MetricSet, NamesTheMetricThatDoesNotFit) {
  MetricSet one;
  one.add("m", Mean());
  MetricSet other;
  other.add("m", Accuracy());
  try {
    one.merge(other);
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("merging metric \"m\""));
  }
  EXPECT_THROW(one.add("m", Mean()), AlreadyExists);
  EXPECT_THROW(one.at("n"), NotFound);
}

// The metric of docs/guides/heads_and_metrics.md, word by word.
class RootMeanSquaredLogError : public muster::MetricOfSums<RootMeanSquaredLogError, 2> {
 public:
  void update(const torch::Tensor& labels, const torch::Tensor& predictions) {
    const auto error = (predictions.log1p() - labels.log1p()).to(torch::kDouble);
    add(0, error.square().sum().item<double>());
    add(1, static_cast<double>(labels.numel()));
  }
  std::string_view kind() const override { return "rmsle"; }
  double compute() const override { return sum(1) == 0 ? 0 : std::sqrt(sum(0) / sum(1)); }
};

TEST(MetricOfSums, TheOneOfTheGuideMergesCopiesAndComesBack) {
  const auto wide = [](double value) { return torch::tensor({value}, torch::kDouble).expm1(); };
  MetricSet set;
  auto& metric = set.add("rmsle", RootMeanSquaredLogError());
  EXPECT_EQ(metric.compute(), 0);
  metric.update(torch::cat({wide(1), wide(2)}), torch::cat({wide(1), wide(5)}));
  MetricSet other;
  other.add("rmsle", RootMeanSquaredLogError()).update(wide(1), wide(0));
  set.merge(other);
  EXPECT_DOUBLE_EQ(set.at("rmsle").compute(), std::sqrt(10.0 / 3.0));
  MetricSet::Kinds kinds = built_in_metrics();
  kinds.merge(metric_kinds<RootMeanSquaredLogError>());
  const MetricSet back = MetricSet::from_bytes(set.to_bytes(), kinds);
  EXPECT_DOUBLE_EQ(back.at("rmsle").compute(), std::sqrt(10.0 / 3.0));
  set.reset();
  EXPECT_EQ(set.at("rmsle").compute(), 0);
  MetricSet mean;
  mean.add("rmsle", Mean());
  EXPECT_THROW(set.merge(mean), InvalidArgument);
}

TEST(MetricSet, AddsASuffixToEveryName) {
  MetricSet set;
  set.add("m", Mean()).update(4.0);
  const MetricSet renamed = std::move(set).with_suffix("/city=Bern");
  EXPECT_EQ(renamed.compute(), (std::map<std::string, double>{{"m/city=Bern", 4.0}}));
}

TEST(MetricSet, ForgetsOnResetAndCopiesDeeply) {
  MetricSet set;
  auto& mean = set.add("m", Mean());
  mean.update(4.0);
  const MetricSet copy = set;
  set.reset();
  EXPECT_EQ(set.compute().at("m"), 0.0);
  EXPECT_EQ(copy.compute().at("m"), 4.0);
}

}  // namespace
}  // namespace muster
