#pragma once

#include <functional>

#include "muster/training/train_and_evaluate.h"

namespace muster::internal {

/// What a task of type evaluator does: follows the checkpoints that others write, until the run
/// has ended or max_steps are evaluated, or `goes_on` says no of an evaluation. See
/// train_and_evaluate().
TrainAndEvaluateResult follow_training(
    Estimator& estimator, const TrainSpec& train_spec, const EvalSpec& eval_spec,
    const std::function<bool(const EvaluationResult&)>& goes_on = {});

}  // namespace muster::internal
