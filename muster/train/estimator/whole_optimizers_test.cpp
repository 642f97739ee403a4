#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

EstimatorOptions whole_options() {
  EstimatorOptions options = small_net::small_options();
  options.optimizer = {{"", schedule_free_adam({.learning_rate = warm_up(0.01, {.steps = 3})})},
                       {"hidden/kernel", muon({.learning_rate = 0.01})},
                       {"logits/kernel", adafactor()},
                       {"logits/bias", lamb()}};
  return options;
}

std::map<std::string, std::string> trained_in(const Path& folder, const RunConfig& config,
                                              const std::vector<std::int64_t>& ends) {
  RunConfig here = config;
  here.model_dir = folder;
  for (const std::int64_t end : ends) {
    Estimator(whole_options(), here).train(small_net::training_input, {.max_steps = end});
  }
  return small_net::latest_values(folder);
}

TEST(WholeOptimizers, ResumeToTheBitAndHaveThoseOfReplicasInTurn) {
  const testing::TempDir folder;
  RunConfig config = small_net::quiet_config({});
  config.reproducibility.replicas = 2;
  config.devices.concurrent_replicas = 1;
  const auto whole = trained_in(folder / "whole", config, {7});
  EXPECT_EQ(trained_in(folder / "resumed", config, {4, 7}), whole);
  config.devices.concurrent_replicas = 2;
  EXPECT_EQ(trained_in(folder / "towers", config, {7}), whole);
  EXPECT_TRUE(whole.contains("hidden/kernel/Muon"));
  // The checkpoint has the kernel as 16 rows and 3 columns.
  EXPECT_EQ(whole.at("logits/kernel/Adafactor").size(), 3 * sizeof(float));
  EXPECT_EQ(whole.at("logits/kernel/Adafactor_1").size(), 16 * sizeof(float));
}

// Predicts its weight.
struct WeightNet : Model {
  WeightNet() { weight = register_parameter("weight", torch::full({1}, 2.0F)); }
  torch::Tensor forward(const Features& x) override { return x.tensor("x") * weight; }
  torch::Tensor weight;
};

Dataset<Batch> ones_and_zeros(const InputContext& in) {
  const std::uint64_t batches = in.mode() == Mode::kTrain ? 20 : 1;
  return range(batches).map([](std::int64_t) {
    return make_batch(Features{{"x", torch::ones({4, 1})}}, torch::zeros({4, 1}));
  });
}

TEST(ScheduleFree, EvaluationsAndPredictionsUseTheAverage) {
  const testing::TempDir folder;
  Estimator estimator({.model = [] { return std::make_shared<WeightNet>(); },
                       .head = regression_head(),
                       .optimizer = schedule_free_adam({.learning_rate = 0.1})},
                      small_net::quiet_config(folder.path()));
  estimator.train(ones_and_zeros);
  const float y = estimator.get_variable_value("weight").item<float>();
  const float d = estimator.get_variable_value("weight/ScheduleFree").item<float>();
  const float x = y + static_cast<float>(1 - 1 / 0.9) * d;
  EXPECT_GT(std::abs(x - y), 1e-3);
  auto predictions = estimator.predict(ones_and_zeros);
  EXPECT_FLOAT_EQ(predictions.next()->tensor("predictions").item<float>(), x);
  EXPECT_NEAR(estimator.evaluate(ones_and_zeros).at("prediction/mean"), x, 1e-6);
}

TEST(ScheduleFree, RefusesAMovingAverageBesideIt) {
  EstimatorOptions options = whole_options();
  options.moving_average = MovingAverageOptions{.decay = 0.9};
  EXPECT_THAT(small_net::error_of([&] { Estimator(options, small_net::quiet_config({})); }),
              HasSubstr("leave out moving_average"));
}

}  // namespace
}  // namespace muster
