#include "muster/train/engine/device_stepper.h"

#include <utility>

namespace muster {

DeviceStepper::DeviceStepper(LocalRun& local, GradientReduction& reduction)
    : Stepper(local),
      reduction_(reduction),
      steps_(local.options, local.config, local.state.towers(), local.state.updater(),
             local.state.average()) {}

void DeviceStepper::check_finite() const {
  if (const auto step = steps_.first_bad_step()) run().nan_guard.stop_for("loss", *step);
}

std::optional<Stepper::Applied> DeviceStepper::compute_and_apply(bool has_batch) {
  if (run().is_shared()) return apply_with_others();
  return has_batch ? apply_alone() : Applied{};
}

Stepper::Applied DeviceStepper::apply_alone() {
  wait_until_copied();
  PartialSums given = steps_.make(run().inputs.batches(), run().step());
  return {.result = {.present = given.present,
                     .examples = given.examples,
                     .losses = std::move(given.losses)},
          .spec = std::move(given.spec)};
}

// Whether the others are all there is seen in every step.
std::optional<Stepper::Applied> DeviceStepper::apply_with_others() {
  wait_until_copied();
  const auto batches = run().inputs.batches();
  PartialSums given;
  auto result =
      reduction_.step_on_device(run().step(), batches, [&](DeviceSums& sums, bool has_all) {
        given = steps_.make(batches, run().step(), &sums, has_all);
      });
  if (!result) return std::nullopt;
  steps_.keep();
  result->losses = std::move(given.losses);
  return Applied{std::move(*result), std::move(given.spec)};
}

StepOutcome DeviceStepper::settle(const StepResult& /*result*/) {
  if (run().is_shared()) check_finite();
  run().progress.advance();
  return StepOutcome::kGoesOn;
}

}  // namespace muster
