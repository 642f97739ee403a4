#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "muster/nn/optim/moving_average.h"
#include "muster/nn/optim/updater.h"
#include "muster/train/engine/gradient_reduction.h"
#include "muster/train/engine/towers.h"
#include "muster/train/engine/train_options.h"

namespace muster {

/// The steps of a process that has its variables on a GPU, and its towers there or on several:
/// forward, backward, the sums over other processes and the update are given to the devices, and
/// the host does not wait for them here. Where RunConfig::devices.capture_steps says so and the
/// step allows it, all of it is captured after a few steps and from then on given away as one
/// piece. A loss that is not finite is noted by the device of the variables, which then changes no
/// variable any more; callers ask first_bad_step() before they look at a result.
///
/// Belongs to the loop's thread, in a StreamScope.
class DeviceSteps {
 public:
  /// Why steps cannot be made this way: then the loop makes them, and looks at every one. Empty
  /// where they can. Without GPUs, host memory counts as one's.
  static std::string obstacle(const EstimatorOptions& options, const RunConfig& config,
                              const TowerOptions& towers, const Model& model);

  /// All outlive it; `average` may be null. Where other processes run some of the replicas, steps
  /// can be undone.
  DeviceSteps(const EstimatorOptions& options, const RunConfig& config, Towers& towers,
              Updater& updater, MovingAverage* average);
  ~DeviceSteps();

  /// The replicas of this process from here on, all of the run's at first. What was captured is
  /// forgotten.
  void begin(ReplicaRange mine);

  /// One step, with `sums` where other processes run some of the replicas. At least one replica of
  /// the run has a batch; `has_all` says whether all of others have. Returns what they gave, but
  /// for the sums of gradients, which are used up; it is written again by the next step.
  PartialSums make(std::span<std::optional<Batch>> batches, std::int64_t step,
                   DeviceSums* sums = nullptr, bool has_all = true);
  /// The device has made it, and it counts.
  void keep();
  /// The last step, if it is not kept, does not count: everything is as it was before. The device
  /// is idle.
  void undo();

  /// The first step, counted from 1, whose loss was not finite. Waits for the device.
  std::optional<std::int64_t> first_bad_step() const;
  /// The weight-decay term of the last step's loss. Waits for the device.
  double decay_loss() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
