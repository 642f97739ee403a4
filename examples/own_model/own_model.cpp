// Your own model: three arms of a spiral, told apart. docs/guides/own_model.md walks through it.
#include <fmt/core.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <cmath>

#include "muster/muster.h"
#include "muster/nn/api.h"

constexpr std::int64_t kArms = 3;

// A model is a libtorch module that makes logits of named features.
struct SpiralNet : muster::Model {
  SpiralNet() {
    hidden = register_module("hidden", torch::nn::Linear(2, 128));
    logits = register_module("logits", torch::nn::Linear(128, kArms));
  }
  torch::Tensor forward(const muster::Features& x) override {
    return logits->forward(torch::relu(hidden->forward(x.tensor("point"))));
  }
  torch::nn::Linear hidden{nullptr}, logits{nullptr};
};

// A batch is named features and labels; here of points that are functions of their numbers.
muster::Batch points(std::span<const std::int64_t> numbers) {
  std::vector<float> xy;
  std::vector<std::int64_t> arms;
  for (const std::int64_t n : numbers) {
    muster::Random random(/*key=*/static_cast<std::uint64_t>(n));
    const double radius = random.uniform(0.1, 1);
    const double angle = 4 * radius + 2.0944 * double(n % kArms) + 0.5 * random.normal();
    xy.insert(xy.end(), {float(radius * std::cos(angle)), float(radius * std::sin(angle))});
    arms.push_back(n % kArms);
  }
  const auto rows = std::int64_t(numbers.size());
  return muster::make_batch({{"point", muster::tensor_of(xy, {rows, 2})}},
                            muster::tensor_of(arms, {rows, 1}));
}

// An input function is told which part of the data to read, and with which seed to shuffle.
muster::Dataset<muster::Batch> train_input(const muster::InputContext& in) {
  return muster::range(3000).shuffle(3000, in.seed()).shard(in).repeat().batch(64, points);
}
muster::Dataset<muster::Batch> eval_input(const muster::InputContext&) {
  return muster::range(4000).skip(3000).batch(250, points);
}

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, [] {
    muster::Estimator estimator({.model = [] { return std::make_shared<SpiralNet>(); },
                                 .head = muster::multi_class_head(kArms),
                                 .optimizer = muster::adam({.learning_rate = 0.01})},
                                muster::RunConfig::from_env().with_model_dir("spiral"));
    const auto result = muster::train_and_evaluate(estimator, {train_input, /*max_steps=*/1000},
                                                   {.input_fn = eval_input});
    for (const auto& [name, value] : result.metrics) fmt::print("{} {:.4g}\n", name, value);
    return 0;
  });
}
