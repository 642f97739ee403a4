#pragma once

#include <optional>

#include "muster/train/engine/device_steps.h"
#include "muster/train/engine/stepper.h"

namespace muster {

/// Steps that the device of the variables is given as a whole. With other processes the host waits
/// until the device has made each; alone it continues, and a loss that is not finite is noticed
/// when a result is looked at.
class DeviceStepper final : public Stepper {
 public:
  /// Both outlive it.
  DeviceStepper(LocalRun& local, GradientReduction& reduction);

  void begin(ReplicaRange mine) override { steps_.begin(mine); }
  void undo() override { steps_.undo(); }
  void check_finite() const override;

 private:
  std::optional<Applied> compute_and_apply(bool has_batch) override;
  Applied apply_alone();
  std::optional<Applied> apply_with_others();
  StepOutcome settle(const StepResult& result) override;
  double decay_loss(const StepResult& /*last*/) const override { return steps_.decay_loss(); }

  GradientReduction& reduction_;
  DeviceSteps steps_;
};

}  // namespace muster
