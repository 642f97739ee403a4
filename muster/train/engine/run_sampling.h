#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "muster/data/summary/task_sampler.h"
#include "muster/train/engine/run_config.h"
#include "muster/train/engine/step_times.h"

namespace muster {

/// Samples of a task that trains: what it takes of its machine, and shares of its steps, which are
/// written beside the events of the run. Nothing is counted where MUSTER_MACHINE_SECONDS is 0.
class RunSampling {
 public:
  RunSampling();

  /// Null where nothing is counted. Lives as long as this.
  StepTimes* times() { return times_.get(); }
  void set_step(std::int64_t step) {
    if (times_ != nullptr) times_->set_step(step);
  }
  /// Begins to sample, at a step.
  void begin(const RunConfig& config, std::int64_t step);

 private:
  const std::optional<std::chrono::milliseconds> period_ = TaskSampler::period();
  const std::unique_ptr<StepTimes> times_;
  std::unique_ptr<StepShares> shares_;
  /// Last, since its thread uses the others.
  std::optional<TaskSampler> sampler_;
};

/// Folder of the samples of the task that a process is.
Path sampling_folder(const RunConfig& config);

}  // namespace muster
