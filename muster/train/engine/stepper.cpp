#include "muster/train/engine/stepper.h"

#include <torch/types.h>

#include <cmath>
#include <utility>

namespace muster {

StepOutcome Stepper::step() {
  const bool has_batch = fetch();
  if (has_batch && run_.nan_guard.skips_batch(run_.batches_taken)) {
    run_.use_up_batches();
    return StepOutcome::kGoesOn;
  }
  auto applied = compute_and_apply(has_batch);
  if (!applied) {
    undo();
    return StepOutcome::kRunEnded;
  }
  StepResult& result = applied->result;
  if (result.positions) run_.inputs.set_positions(std::move(*result.positions));
  if (!result.not_finite.empty()) run_.nan_guard.inspect(run_.inputs.batches());
  has_input_ended_ = result.present == 0;
  if (has_input_ended_) {
    run_.inputs.use_up();
    // Others may have made steps since this task's last.
    if (result.step) run_.progress.jump_to(*result.step);
    return StepOutcome::kInputEnded;
  }
  run_.use_up_batches();
  spec_ = std::move(applied->spec);
  last_loss_.reset();
  last_ = std::move(result);
  return settle(last_);
}

bool Stepper::fetch() {
  const StepTimes::In waiting(run_.times, StepPart::kInput);
  return run_.inputs.fetch(run_.mine);
}

void Stepper::wait_until_copied() {
  const StepTimes::In saving(run_.times, StepPart::kSave);
  run_.checkpoints.wait_until_copied();
}

double Stepper::loss() {
  if (!last_loss_) {
    check_finite();
    const double decay = decay_loss(last_);
    double sum = 0;
    for (const auto& loss : last_.losses) {
      if (loss.defined()) sum += loss.item<double>();
    }
    last_loss_ =
        last_.present == 0 ? std::nan("") : sum / static_cast<double>(last_.present) + decay;
  }
  return *last_loss_;
}

}  // namespace muster
