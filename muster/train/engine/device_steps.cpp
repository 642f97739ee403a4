#include "muster/train/engine/device_steps.h"

#include <string>
#include <utility>
#include <vector>

#include "muster/base/wait.h"
#include "muster/nn/optim/update.h"
#include "muster/train/engine/captured_steps.h"
#include "muster/train/engine/step_undo.h"

namespace muster {

struct DeviceSteps::Impl {
  Towers& towers;
  Updater& updater;
  CapturedSteps steps;
  DeviceUpdate update;
  /// Those of this process.
  ReplicaRange mine;
  /// Where a step can be undone.
  std::optional<StepUndo> kept{};
  bool is_open = false;

  Impl(const EstimatorOptions& options, const RunConfig& config, Towers& run, Updater& run_updater,
       MovingAverage* run_average)
      : towers(run),
        updater(run_updater),
        steps(run, {.device = run.slots().primary(),
                    .head = options.head.get(),
                    .may_capture = config.devices.capture_steps,
                    .obstacle = options.moving_average && options.moving_average->ramp
                                    ? "the moving average has another decay every step"
                                    : "",
                    .constants = run_updater.constants_size()}),
        update(towers.variables(), updater, options.update_rules(), run_average, steps.number(),
               steps.constants()),
        mine{0, run.options().replicas} {
    if (towers.options().shared) kept.emplace(all_values(run_average));
  }

  std::vector<at::Tensor> all_values(const MovingAverage* average) const {
    std::vector<at::Tensor> values{update.state()};
    const auto add = [&values](const std::vector<NamedTensor>& more) {
      for (const NamedTensor& named : more) values.push_back(named.tensor);
    };
    add(towers.variables().tensors());
    add(updater.tensors());
    if (average != nullptr) add(average->tensors());
    return values;
  }

  PartialSums work(std::span<std::optional<Batch>> batches, std::int64_t step, DeviceSums* sums,
                   const CapturedInput& captured) {
    if (kept) kept->keep_on_device();
    PartialSums result = towers.run(batches, mine, step, /*loss_scale=*/1.0, captured);
    if (sums != nullptr) sums->add_up(result, towers.buffers());
    Gradients mean = take_mean(result);
    update.apply(mean, result.losses, step);
    towers.commit();
    return result;
  }
};

std::string DeviceSteps::obstacle(const EstimatorOptions& options, const RunConfig& config,
                                  const TowerOptions& towers, const Model& model) {
  if (towers.variable_strategy != VariableStrategy::kDevices) {
    return "RunConfig::devices.variable_strategy keeps variables on the CPU";
  }
  if (options.update_rules().checks_gradients) return "nan_policy looks at every step";
  for (const OptimizerFor& entry : options.optimizer) {
    if (entry.optimizer.is_custom()) return "the host computes " + entry.optimizer.description();
  }
  return CapturedSteps::obstacle(options, config, towers, model);
}

DeviceSteps::DeviceSteps(const EstimatorOptions& options, const RunConfig& config, Towers& towers,
                         Updater& updater, MovingAverage* average)
    : impl_(std::make_unique<Impl>(options, config, towers, updater, average)) {}
DeviceSteps::~DeviceSteps() = default;

void DeviceSteps::begin(ReplicaRange mine) {
  impl_->mine = mine;
  impl_->steps.begin(mine);
}

PartialSums DeviceSteps::make(std::span<std::optional<Batch>> batches, std::int64_t step,
                              DeviceSums* sums, bool has_all) {
  if (impl_->kept) impl_->kept->keep_on_host();
  impl_->is_open = true;
  return impl_->steps.make(
      batches, step, has_all,
      [&](std::span<std::optional<Batch>> placed, const CapturedInput& captured) {
        return impl_->work(placed, step, sums, captured);
      },
      [&](std::span<std::int64_t> words) { impl_->updater.write_constants(step, words); });
}

void DeviceSteps::keep() { impl_->is_open = false; }

void DeviceSteps::undo() {
  if (!impl_->is_open || !impl_->kept) return;
  impl_->kept->restore();
  impl_->towers.commit();
  impl_->is_open = false;
}

std::optional<std::int64_t> DeviceSteps::first_bad_step() const {
  const BlockingRegion region([] { return "the GPU: the steps that it was given"; });
  return impl_->update.first_bad_step();
}

double DeviceSteps::decay_loss() const { return impl_->update.decay_loss(); }

}  // namespace muster
