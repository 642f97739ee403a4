// The models of compiled_steps.cpp through an Estimator, in bfloat16, for what a user of muster
// gets.
//
//   own_models MODEL [default|off|on|max] [STEPS]       resnet18, transformer or lstm
//
// Prints the examples a second of steps alone: the difference of a long run and a short one, so
// that start, compiling, capture and save cancel out. Trains in the folder own_models_MODEL_HOW.
#include "own_models.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>

#include "muster/muster.h"
#include "muster/nn/api.h"

namespace muster {
namespace {

struct Wrapped : Model {
  explicit Wrapped(const std::string& kind) {
    auto made = own_models::make_model(kind, own_models::sizes_of(kind, false));
    register_module("net", made.first);
    forward_ = std::move(made.second);
  }
  torch::Tensor forward(const Features& features) override {
    return forward_(features.tensor("x"));
  }

 private:
  own_models::Forward forward_;
};

std::optional<CompileMode> mode_of(const std::string& how) {
  if (how == "default") return std::nullopt;
  if (how == "off") return CompileMode::kOff;
  if (how == "on") return CompileMode::kOn;
  if (how == "max") return CompileMode::kMax;
  throw UsageError("{} is none of default, off, on and max", how);
}

double seconds_of(Estimator& estimator, const auto& input, std::int64_t until) {
  const auto start = std::chrono::steady_clock::now();
  estimator.train(input, {.max_steps = until});
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run(const std::string& kind, const std::string& how, std::int64_t steps) {
  const own_models::Sizes sizes = own_models::sizes_of(kind, false);
  torch::manual_seed(0);
  const auto x = kind == "resnet18"
                     ? torch::randn({sizes.batch, 3, sizes.side, sizes.side})
                     : torch::randint(0, sizes.words, {sizes.batch, sizes.length}, torch::kInt64);
  const auto label = torch::randint(0, 1000, {sizes.batch, 1}, torch::kInt64);
  const auto input = [&](const InputContext& in) {
    return range(1000000).shard(in).repeat().batch(sizes.batch, [&](std::span<const std::int64_t>) {
      return make_batch({{"x", x}}, label);
    });
  };
  RunConfig config = RunConfig::from_env();
  config.model_dir = "own_models_" + kind + "_" + how;
  config.reproducibility.precision = ComputeType::kBfloat16;
  config.save_summary_steps = 0;
  config.reproducibility.deterministic = false;
  config.reproducibility.compile = mode_of(how);
  Estimator estimator({.model = [&] { return std::make_shared<Wrapped>(kind); },
                       .head = multi_class_head(1000),
                       .optimizer = momentum({.learning_rate = 1e-4, .momentum = 0.9})},
                      config);
  const double first = seconds_of(estimator, input, 1);
  const double few = seconds_of(estimator, input, 1 + steps / 4);
  const double many = seconds_of(estimator, input, 1 + steps / 4 + steps);
  const double step = (many - few) / static_cast<double>(steps - steps / 4);
  fmt::print("{} batch {} compile {}: {:.1f} examples/s ({:.3f} ms a step), first step {:.2f} s\n",
             kind, sizes.batch, how, static_cast<double>(sizes.batch) / step, step * 1e3, first);
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "transformer";
  const std::string how = argc > 2 ? argv[2] : "default";
  const std::int64_t steps = argc > 3 ? std::atoi(argv[3]) : 2000;
  return muster::run_main([&] { return muster::run(kind, how, steps); });
}
