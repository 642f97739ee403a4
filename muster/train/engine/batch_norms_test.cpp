#include "muster/train/engine/batch_norms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/small_net_internal.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LogLines;
using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header

struct OneNorm : torch::nn::Module {
  OneNorm() {
    norm = register_module("norm",
                           torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(1).momentum(0.01)));
  }
  torch::nn::BatchNorm1d norm{nullptr};
};

TEST(BatchNorms, DebiasedAveragesAreThoseOfTheBatchesAlone) {
  const auto model = std::make_shared<OneNorm>();
  const BatchNorms norms(*model);
  double weighted = 0;
  double weights = 0;
  for (std::int64_t update = 1; update <= 20; ++update) {
    norms.debias(update);
    const auto x = torch::tensor({{1.0F}, {3.0F}}) * static_cast<double>(update);
    model->norm(x);
    weighted = 0.99 * weighted + 0.01 * 2.0 * static_cast<double>(update);
    weights = 0.99 * weights + 0.01;
    EXPECT_NEAR(model->norm->running_mean.item<double>(), weighted / weights,
                1e-4 * weighted / weights);
  }
}

TEST(BatchNorms, KnowWhatTheirAveragesHoldOfTheFirstValues) {
  const auto model = std::make_shared<OneNorm>();
  const BatchNorms norms(*model);
  EXPECT_FALSE(norms.most_biased().has_value());
  for (int i = 0; i < 10; ++i) model->norm(torch::tensor({{1.0F}, {3.0F}}));
  EXPECT_EQ(norms.most_biased()->name, "norm");
  EXPECT_EQ(norms.most_biased()->updates, 10);
  EXPECT_NEAR(norms.most_biased()->share, 0.904, 0.001);
  EXPECT_EQ(updates_to_settle(0.99), 459);
}

// Lines of evaluations after this many steps, the second of which has nothing new to say.
std::vector<std::string> lines_of_evaluations(EstimatorOptions options, std::int64_t steps) {
  const TempDir folder;
  Estimator estimator(std::move(options), quiet_config(folder.path()));
  estimator.train(training_input, {.steps = steps});
  const LogLines log;
  estimator.evaluate(evaluation_input, {.steps = 1});
  estimator.evaluate(evaluation_input, {.steps = 1});
  return log.lines;
}

TEST(BatchNorms, AnEvaluationSaysOnceThatAveragesHaveHardlyMoved) {
  const auto warns = AllOf(HasSubstr("the moving averages of batch norm"), HasSubstr("norm"),
                           HasSubstr("zero_debias_batch_norm"));
  EXPECT_THAT(lines_of_evaluations(small_options(), 5), Contains(warns).Times(1));
  EXPECT_THAT(lines_of_evaluations(small_options(), 50), Contains(warns).Times(0));
  EstimatorOptions debiased = small_options();
  debiased.zero_debias_batch_norm = true;
  EXPECT_THAT(lines_of_evaluations(debiased, 5), Contains(warns).Times(0));
}

TEST(BatchNorms, ADebiasedRunHasTheStatisticsOfItsFirstBatchAfterOneStep) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.zero_debias_batch_norm = true;
  // The variance of an average that kept nine tenths of 1 would be far from that of the inputs.
  Estimator(options, quiet_config(folder.path())).train(training_input, {.steps = 1});
  const BundleReader bundle(*latest_checkpoint(folder.path()));
  const TensorData variance = bundle.read("norm/moving_variance");
  const std::span values(reinterpret_cast<const float*>(variance.bytes.data()), 16);
  for (const float value : values) EXPECT_LT(value, 0.9F);
}

TEST(BatchNorms, ADebiasedRunResumesToTheBit) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.zero_debias_batch_norm = true;
  Estimator(options, quiet_config(folder / "whole")).train(training_input, {.max_steps = 7});
  for (const std::int64_t stop : {3, 7}) {
    Estimator(options, quiet_config(folder / "parts")).train(training_input, {.max_steps = stop});
  }
  EXPECT_EQ(latest_values(folder / "whole"), latest_values(folder / "parts"));
}

}  // namespace
}  // namespace muster
