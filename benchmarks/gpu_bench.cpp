// Training steps of ResNet-44 on CIFAR-10's shapes, on one GPU, through an Estimator: batches come
// from the host every step. MUSTER_ANCHOR_128 and MUSTER_ANCHOR_1024 are what another program
// reached on this GPU, in images/s: scripts/gpu-check sets them.
#include <fmt/core.h>
#include <torch/types.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "benchmarks/report.h"
#include "benchmarks/training_rate.h"
#include "muster/base/log.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/model/resnet.h"
#include "muster/train/estimator/estimator.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

/// Times the steps between two that it waits for.
class SteadyRate : public Hook {
 public:
  SteadyRate(std::int64_t first, std::int64_t last) : first_(first), last_(last) {}

  void after_run(Session& session) override {
    if (session.global_step() != first_ && session.global_step() != last_) return;
    session.loss();
    const auto now = Clock::now();
    if (session.global_step() == last_)
      seconds_ = std::chrono::duration<double>(now - from_).count();
    from_ = now;
  }
  double steps_per_second() const { return static_cast<double>(last_ - first_) / seconds_; }

 private:
  std::int64_t first_;
  std::int64_t last_;
  Clock::time_point from_{};
  double seconds_ = 0;
};

struct Setting {
  std::int64_t batch = 128;
  std::int64_t steps = 400;
  bool fused = true;
  bool capture = true;
  bool deterministic = true;
};

InputFn constant_input(std::int64_t size) {
  torch::manual_seed(1);
  const Batch batch =
      make_batch(Features{{"image", torch::randint(0, 256, {size, 32, 32, 3}, torch::kByte)}},
                 torch::randint(0, 10, {size, 1}));
  return [batch](const InputContext&) {
    return generate([batch](std::uint64_t) { return std::optional(batch); });
  };
}

double images_per_second(const Setting& setting) {
  RunConfig config = bench::silent_config(/*threads=*/1);
  config.devices.names = {"cuda:0"};
  config.reproducibility.precision = ComputeType::kBfloat16;
  config.devices.capture_steps = setting.capture;
  config.reproducibility.deterministic = setting.deterministic;
  const bool fused = setting.fused;
  Estimator estimator({.model =
                           [fused] {
                             return std::make_shared<ResNet>(ResNetOptions{
                                 .num_classes = 11, .channels_last = true, .fused = fused});
                           },
                       .head = multi_class_head(11),
                       .optimizer = momentum({.learning_rate = 0.01, .momentum = 0.9}),
                       .weight_decay = {.factor = 2e-4}},
                      config);
  constexpr std::int64_t kWarmUp = 50;
  const std::int64_t last = kWarmUp + setting.steps;
  const auto rate = std::make_shared<SteadyRate>(kWarmUp, last);
  estimator.train(constant_input(setting.batch),
                  {.steps = last, .hooks = {rate}, .handle_signals = false});
  return static_cast<double>(setting.batch) * rate->steps_per_second();
}

std::optional<double> anchor(std::int64_t batch) {
  const char* const value = std::getenv(fmt::format("MUSTER_ANCHOR_{}", batch).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::strtod(value, nullptr);
}

void add(bench::Report& report, const std::string& name, const Setting& setting,
         std::optional<double> at_least = {}, std::optional<double> aim = {}) {
  const std::string row = fmt::format("ResNet-44, GPU, bf16, batch {}: {}", setting.batch, name);
  if (!report.wants(row)) return;
  report.add({.name = row,
              .value = images_per_second(setting),
              .unit = "images/s",
              .limit = anchor(setting.batch),
              .at_least = at_least,
              .aim = aim});
}

int run(int argc, char** argv) {
  log::set_level(log::Level::kError);
  bench::Report report(argc, argv);
  if (gpu_count() == 0) {
    fmt::print(stderr, "no GPU: {}\n", why_no_gpu());
    return report.finish();
  }
  add(report, "own kernels", {}, 1.1, 2.0);
  add(report, "own kernels, not captured", {.capture = false});
  add(report, "libtorch's kernels", {.fused = false});
  add(report, "libtorch's kernels, autotuned", {.fused = false, .deterministic = false});
  add(report, "libtorch's kernels, not captured", {.steps = 100, .fused = false, .capture = false});
  add(report, "own kernels", {.batch = 1024, .steps = 100}, 0.9, 1.5);
  add(report, "libtorch's kernels", {.batch = 1024, .steps = 60, .fused = false});
  add(report, "libtorch's kernels, autotuned",
      {.batch = 1024, .steps = 60, .fused = false, .deterministic = false});
  return report.finish();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::run(argc, argv); }
