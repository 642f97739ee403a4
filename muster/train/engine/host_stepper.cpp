#include "muster/train/engine/host_stepper.h"

#include <utility>

namespace muster {

HostStepper::HostStepper(LocalRun& local, LocalParticipant& participant,
                         GradientReduction& reduction, bool captures_towers)
    : Stepper(local), participant_(participant), reduction_(reduction) {
  if (!captures_towers) return;
  Towers& towers = local.state.towers();
  captured_.emplace(towers, CapturedSteps::Options{.device = towers.options().devices[0],
                                                   .head = local.options.head.get()});
}

void HostStepper::begin(ReplicaRange mine) {
  if (captured_) captured_->begin(mine);
}

PartialSums HostStepper::compute() {
  Towers& towers = run().state.towers();
  const auto run_towers = [&](std::span<std::optional<Batch>> batches,
                              const CapturedInput& captured) {
    return towers.run(batches, run().mine, run().step(), run().state.scale().value(), captured);
  };
  const auto batches = run().inputs.batches();
  PartialSums own = captured_ ? captured_->make(batches, run().step(), /*has_all=*/true, run_towers)
                              : run_towers(batches, {});
  // Decay loss of the values that the step began with, while the GPU computes.
  if (captured_ && run().is_shared()) participant_.compute_decay_loss_ahead();
  towers.wait();
  return own;
}

std::optional<StepResult> HostStepper::apply(PartialSums own) {
  const StepTimes::In summing(run().times, StepPart::kSum);
  return reduction_.apply(run().step(), std::move(own));
}

std::optional<Stepper::Applied> HostStepper::compute_and_apply(bool /*has_batch*/) {
  PartialSums own = compute();
  EstimatorSpec spec = std::move(own.spec);
  wait_until_copied();
  auto result = apply(std::move(own));
  if (!result) return std::nullopt;
  return Applied{std::move(*result), std::move(spec)};
}

StepOutcome HostStepper::settle(const StepResult& result) {
  if (!result.overflowed && !result.not_finite.empty()) return settle_bad(result);
  if (result.overflowed) {
    run().state.towers().discard();
  } else {
    run().state.towers().commit();
    run().progress.jump_to(result.step.value_or(run().step() + 1));
  }
  return StepOutcome::kGoesOn;
}

// The variables have not been touched by the step.
StepOutcome HostStepper::settle_bad(const StepResult& result) {
  const NanPolicy::Action action = run().nan_guard.count(result.not_finite, run().step() + 1);
  if (action == NanPolicy::Action::kRollBack) {
    run().nan_guard.skip_batch(run().batches_taken - 1);
    return StepOutcome::kRolledBack;
  }
  run().state.towers().discard();
  return StepOutcome::kGoesOn;
}

}  // namespace muster
