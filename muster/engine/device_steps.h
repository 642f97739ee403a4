#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "muster/engine/towers.h"
#include "muster/engine/train_options.h"
#include "muster/optim/moving_average.h"
#include "muster/optim/updater.h"

namespace muster {

/// The steps of a process that has its variables on one GPU and no peers: forward, backward and
/// update are given to the device and nobody waits for them. Where RunConfig::devices.capture_steps
/// says so and the step allows it, all of it is captured after a few steps and from then on given
/// to the device as one piece. A loss that is not finite is noted by the device, which then changes
/// no variable any more; whoever looks at a result asks first_bad_step() before.
///
/// Belongs to the loop's thread, in a StreamScope.
class DeviceSteps {
 public:
  /// Whether steps can be made this way; otherwise the loop makes them, and looks at every one.
  static bool can_make(const EstimatorOptions& options, const RunConfig& config,
                       const Towers& towers);

  /// All outlive it; `average` may be null.
  DeviceSteps(const EstimatorOptions& options, const RunConfig& config, Towers& towers,
              Updater& updater, MovingAverage* average);
  ~DeviceSteps();

  /// One step. At least one of the replicas has a batch. Returns what they gave, but for the sums,
  /// which are used up; it is written again by the next step.
  PartialSums make(std::span<std::optional<Batch>> batches, std::int64_t step);

  /// The first step, counted from 1, whose loss was not finite. Waits for the device.
  std::optional<std::int64_t> first_bad_step() const;
  /// The weight-decay term of the last step's loss. Waits for the device.
  double decay_loss() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
