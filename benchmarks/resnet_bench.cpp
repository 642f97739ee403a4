// The CPU step of ResNet-44 on CIFAR-10's shapes beside PyTorch's, in turns.
//
// The anchor's best setting is looked for first; MUSTER_RESNET_SETTING=2,off,1 (threads, oneDNN,
// OpenBLAS's threads) names it instead and saves a minute.
#include <fmt/core.h>
#include <torch/types.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/report.h"
#include "benchmarks/training_rate.h"
#include "muster/base/log.h"
#include "muster/base/thread_pool.h"
#include "muster/nn/kernels/libtorch_kernels.h"
#include "muster/nn/model/resnet.h"
#include "muster/train/estimator/estimator.h"

namespace muster {
namespace {

const std::int64_t kBatch = bench::sized<std::int64_t>(128, 8);
constexpr std::int64_t kSteps = 5;
const int kRounds = bench::sized(3, 1);

InputFn constant_input() {
  torch::manual_seed(1);
  const Batch batch =
      make_batch(Features{{"image", torch::randint(0, 256, {kBatch, 32, 32, 3}, torch::kByte)}},
                 torch::randint(0, 10, {kBatch, 1}));
  return [batch](const InputContext&) {
    return generate([batch](std::uint64_t) { return std::optional(batch); });
  };
}

bench::MakeEstimator make(const ResNetOptions& options, bool own_kernels = true) {
  return [options, own_kernels](RunConfig config) {
    config.reproducibility.own_cpu_kernels = own_kernels;
    return Estimator({.model = [options] { return std::make_shared<ResNet>(options); },
                      .head = multi_class_head(11),
                      .optimizer = momentum({.learning_rate = 0.1, .momentum = 0.9}),
                      .weight_decay = {.factor = 2e-4}},
                     config);
  };
}

double images_per_second(const bench::MakeEstimator& estimator, const InputFn& input, int threads,
                         std::int64_t steps = kSteps) {
  return static_cast<double>(kBatch) *
         bench::steps_per_second_of_run(estimator, input, threads, steps);
}

std::optional<std::string> best_setting() {
  if (const char* const given = std::getenv("MUSTER_RESNET_SETTING")) return std::string(given);
  const auto anchor = bench::run_anchor("resnet_torch.py");
  if (!anchor) return std::nullopt;
  return anchor->setting;
}

// In turns, so that a busy machine slows both; the ratio is the median of the rounds' ratios.
void add_step_over_pytorch(bench::Report& report, const InputFn& input, int threads) {
  const std::string name = "ResNet-44, batch 128, CPU, over PyTorch";
  if (!report.wants(name)) return;
  const auto setting = best_setting();
  std::vector<double> rates;
  std::vector<double> ratios;
  for (int round = 0; round < kRounds; ++round) {
    rates.push_back(images_per_second(make({.num_classes = 11}), input, threads));
    if (!setting) continue;
    const auto anchor =
        bench::run_anchor(fmt::format("resnet_torch.py --steps 2 --setting {}", *setting));
    if (anchor) ratios.push_back(rates.back() / anchor->examples_per_second);
  }
  const double rate = bench::median(rates);
  bench::Row row{.name = name, .value = rate, .unit = "images/s", .at_least = 1.2, .aim = 1.9};
  if (!ratios.empty()) row.limit = rate / bench::median(ratios);
  report.add(row);
}

void add_alone(bench::Report& report, const std::string& name,
               const bench::MakeEstimator& estimator, const InputFn& input, int threads) {
  if (!report.wants(name)) return;
  report.add({.name = name,
              .value = images_per_second(estimator, input, threads, /*steps=*/3),
              .unit = "images/s"});
}

int run(int argc, char** argv) {
  log::set_level(log::Level::kError);
  bench::Report report(argc, argv);
  const auto processors = static_cast<int>(ThreadPool::available_processors());
  const InputFn input = constant_input();
  add_step_over_pytorch(report, input, processors);
  add_alone(report, "ResNet-44, one thread", make({.num_classes = 11}), input, 1);
  // Where libtorch keeps its kernels, these would be the first row under other names.
  if (kernels::has_libtorch_kernels()) {
    add_alone(report, "ResNet-44, layer by layer", make({.num_classes = 11, .fused = false}), input,
              processors);
  }
  if (kernels::has_libtorch_kernels() || !kernels::residual_unit_loops().empty()) {
    add_alone(report, "ResNet-44, libtorch's kernels",
              make({.num_classes = 11}, /*own_kernels=*/false), input, processors);
  }
  add_alone(report, "ResNet-44, libtorch's kernels, channels last",
            make({.num_classes = 11, .channels_last = true}, /*own_kernels=*/false), input,
            processors);
  return report.finish();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::run(argc, argv); }
