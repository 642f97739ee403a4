// Overhead of the estimator per step, and its speed compared with PyTorch in the same run.
#include <fmt/core.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "benchmarks/report.h"
#include "benchmarks/training_rate.h"
#include "muster/base/log.h"
#include "muster/nn/model/dense.h"
#include "muster/nn/model/dropout.h"
#include "muster/nn/model/mlp.h"
#include "muster/nn/model/model.h"
#include "muster/nn/optim/updater.h"
#include "muster/train/engine/arithmetic.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/predictor.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct MlpModel : Model {
  MlpModel() {
    mlp = register_module(
        "dnn", std::make_shared<Mlp>(MlpOptions{.inputs = 66, .hidden_units = {100, 70, 48, 34}}));
  }
  torch::Tensor forward(const Features& x) override { return mlp->forward(x.tensor("x")); }
  bool draws_from_libtorch() const override { return false; }
  std::shared_ptr<Mlp> mlp;
};

/// The CNN of the project template, as examples/mnist has it.
struct CnnModel : Model {
  CnnModel() {
    const auto same = [](std::int64_t in, std::int64_t out) {
      return torch::nn::Conv2dOptions(in, out, 3).padding(1);
    };
    conv1 = register_module("conv1", torch::nn::Conv2d(same(1, 32)));
    norm1 = register_module("norm1", torch::nn::BatchNorm2d(32));
    conv2 = register_module("conv2", torch::nn::Conv2d(same(32, 64)));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(64));
    dense = register_module("dense", std::make_shared<Dense>(7 * 7 * 64, 1024));
    norm3 = register_module("norm3", torch::nn::BatchNorm1d(1024));
    dropout = register_module("dropout", std::make_shared<Dropout>(0.5));
    logits = register_module("logits", std::make_shared<Dense>(1024, 10));
  }
  torch::Tensor forward(const Features& features) override {
    torch::Tensor x = features.tensor("x");
    x = torch::max_pool2d(torch::relu(norm1->forward(conv1->forward(x))), 2);
    x = torch::max_pool2d(torch::relu(norm2->forward(conv2->forward(x))), 2);
    x = torch::relu(norm3->forward(dense->forward(torch::flatten(x, 1))));
    return logits->forward(dropout->forward(x));
  }
  bool draws_from_libtorch() const override { return false; }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::BatchNorm1d norm3{nullptr};
  std::shared_ptr<Dense> dense, logits;
  std::shared_ptr<Dropout> dropout;
};

/// One multiplication: what is left of a step is the loop's.
struct TinyModel : Model {
  TinyModel() { weight = register_parameter("weight", torch::ones({1})); }
  torch::Tensor forward(const Features& x) override { return x.tensor("x") * weight; }
  EstimatorSpec call(const Batch& batch, Mode mode, const Head*) override {
    const torch::Tensor output = forward(batch.features);
    if (mode == Mode::kPredict) return {.mode = mode, .predictions = {{"output", output}}};
    return {.mode = mode, .loss = output.sum()};
  }
  bool draws_from_libtorch() const override { return false; }
  torch::Tensor weight;
};

// The same batch for ever: input costs nothing, as on the other side.
InputFn constant_input(const Batch& batch) {
  return [batch](const InputContext&) {
    return generate([batch](std::uint64_t) { return std::optional(batch); });
  };
}

EstimatorOptions tiny_options() {
  return {.model = [] { return std::make_shared<TinyModel>(); },
          .optimizer = sgd({.learning_rate = 1e-9})};
}

Batch tiny_batch() {
  return make_batch(Features{{"x", torch::ones({1, 1})}}, torch::zeros({1, 1}));
}

bench::MakeEstimator make(const EstimatorOptions& options) {
  return [options](const RunConfig& config) { return Estimator(options, config); };
}

// The loop's own cost: a step of the tiny model through the estimator, less the same step by hand.
double loop_microseconds() {
  const EstimatorOptions options = tiny_options();
  const Batch batch = tiny_batch();
  const std::int64_t steps = bench::sized<std::int64_t>(50'000, 50);
  const double through_loop =
      1e6 / bench::steps_per_second(make(options), constant_input(batch), 1, steps);

  auto model = std::make_shared<TinyModel>();
  auto variables = Variables::adopt(*model);
  auto attached = variables.attach(model);
  Updater updater(variables, options.optimizer);
  std::vector<double> by_hand;
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    for (std::int64_t step = 0; step < steps; ++step) {
      attached.zero();
      model->call(batch, Mode::kTrain, nullptr).loss.backward();
      attached.collect();
      updater.apply(attached.gradients(), step);
    }
    by_hand.push_back(1e6 * seconds_since(start) / static_cast<double>(steps));
  }
  return through_loop - bench::median(by_hand);
}

// A call of a Predictor, less the model's forward by hand.
double predictor_microseconds(const EstimatorOptions& options, const Batch& batch,
                              const bench::Effort& effort) {
  RunConfig config = bench::silent_config(1);
  config.checkpoints.save_checkpoints = true;
  Estimator(options, config).train(constant_input(batch), {.steps = 1, .handle_signals = false});
  const Predictor predictor(options, config.model_dir);
  std::filesystem::remove_all(config.model_dir);
  const auto model = options.model();
  model->eval();
  const int calls = bench::sized(1000, 2);
  const auto times = bench::median_pair(
      [&] {
        for (int i = 0; i < calls; ++i) bench::keep(predictor.predict(batch.features));
      },
      [&] {
        const c10::InferenceMode inference;
        for (int i = 0; i < calls; ++i) bench::keep(model->forward(batch.features));
      },
      effort);
  return 1e6 * (times.work_seconds - times.limit_seconds) / calls;
}

void add_predictor(bench::Report& report, const std::string& name, const EstimatorOptions& options,
                   const Batch& batch) {
  if (!report.wants(name)) return;
  report.add({.name = name,
              .value = predictor_microseconds(options, batch, report.effort()),
              .unit = "us"});
}

void add_training(bench::Report& report, const std::string& name, const std::string& anchor,
                  double at_least, double aim, const EstimatorOptions& options, const Batch& batch,
                  std::int64_t steps) {
  if (!report.wants(name)) return;
  const double ours = bench::best_steps_per_second(make(options), constant_input(batch), steps) *
                      static_cast<double>(batch.size());
  report.add({.name = name,
              .value = ours,
              .unit = "examples/s",
              .limit = bench::anchor_examples_per_second("train_torch.py " + anchor),
              .at_least = at_least,
              .aim = aim});
}

int run(int argc, char** argv) {
  log::set_level(log::Level::kError);
  bench::Report report(argc, argv);
  if (report.wants("estimator's own cost a step (at most 30, aim 10)")) {
    report.add({.name = "estimator's own cost a step (at most 30, aim 10)",
                .value = loop_microseconds(),
                .unit = "us"});
  }
  add_predictor(report, "Predictor's own cost a call", tiny_options(), tiny_batch());
  torch::manual_seed(1);
  const EstimatorOptions mlp{.model = [] { return std::make_shared<MlpModel>(); },
                             .head = binary_class_head(),
                             .optimizer = adagrad({.learning_rate = 0.01})};
  const Batch mlp_batch = make_batch(Features{{"x", torch::randn({40, 66})}},
                                     torch::randint(0, 2, {40, 1}).to(torch::kFloat));
  add_predictor(report, "Predictor's own cost a call with the seven predictions of a binary head",
                mlp, mlp_batch);
  add_training(report, "MLP 66-100-70-48-34-1, batch 40, over PyTorch", "mlp", 3, 6, mlp, mlp_batch,
               8'000);
  add_training(
      report, "MNIST CNN, batch 128, over PyTorch", "mnist", 1.1, 1.8,
      {.model = [] { return std::make_shared<CnnModel>(); },
       .head = multi_class_head(10),
       .optimizer = adam({.learning_rate = 0.001})},
      make_batch(Features{{"x", torch::rand({128, 1, 28, 28})}}, torch::randint(0, 10, {128, 1})),
      60);
  return report.finish();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::run(argc, argv); }
