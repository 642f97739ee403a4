#pragma once

#include <optional>

#include "muster/train/engine/captured_steps.h"
#include "muster/train/engine/local_participant.h"
#include "muster/train/engine/stepper.h"

namespace muster {

/// Steps that the host makes, or has other processes make: it waits for the gradients, on whatever
/// device they are computed, and looks at every update.
class HostStepper final : public Stepper {
 public:
  /// All outlive it. Where `captures_towers`, one GPU is given forwards and backwards as a whole.
  HostStepper(LocalRun& local, LocalParticipant& participant, GradientReduction& reduction,
              bool captures_towers);

  void begin(ReplicaRange mine) override;
  void undo() override { run().state.towers().discard(); }

 private:
  PartialSums compute();
  std::optional<StepResult> apply(PartialSums own);
  std::optional<Applied> compute_and_apply(bool has_batch) override;
  StepOutcome settle(const StepResult& result) override;
  StepOutcome settle_bad(const StepResult& result);

  LocalParticipant& participant_;
  GradientReduction& reduction_;
  std::optional<CapturedSteps> captured_;
};

}  // namespace muster
