// A line through points: an experiment as every task of a cluster (docs/guides/experiment.md).
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "muster/muster.h"
#include "muster/nn/api.h"

struct Line : muster::Model {
  torch::Tensor forward(const muster::Features& x) override {
    return slope->forward(x.tensor("x"));
  }
  torch::nn::Linear slope{register_module("slope", torch::nn::Linear(1, 1))};
};

// y = 2 x + 1 at points from 0 to 1.
muster::Batch points(std::span<const std::int64_t> numbers) {
  std::vector<float> x, y;
  for (const std::int64_t n : numbers) {
    x.push_back(float(n % 100) / 100);
    y.push_back(2 * x.back() + 1);
  }
  const auto rows = std::int64_t(numbers.size());
  return muster::make_batch({{"x", muster::tensor_of(x, {rows, 1})}},
                            muster::tensor_of(y, {rows, 1}));
}

muster::Dataset<muster::Batch> train_input(const muster::InputContext& in) {
  return muster::range(1000).shuffle(1000, in.seed()).shard(in).repeat().batch(50, points);
}
muster::Dataset<muster::Batch> eval_input(const muster::InputContext&) {
  return muster::range(100).batch(50, points);
}

muster::Experiment make_experiment(const muster::RunConfig& config) {
  const muster::Estimator estimator({.model = [] { return std::make_shared<Line>(); },
                                     .head = muster::regression_head(),
                                     .optimizer = muster::adam({.learning_rate = 0.1})},
                                    config);
  return {estimator,
          {.train_input_fn = train_input, .eval_input_fn = eval_input, .train_steps = 200}};
}

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, [] {
    muster::learn_runner::run(make_experiment, {.output_dir = "line"});
    return 0;
  });
}
