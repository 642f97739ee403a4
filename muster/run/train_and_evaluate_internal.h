#pragma once

#include "muster/run/checkpoint_evaluator_internal.h"
#include "muster/run/train_and_evaluate.h"

namespace muster::internal {

/// Options that Experiment adds to train_and_evaluate(). The pace is that of tasks that also train:
/// an evaluator has its own.
struct RunExtras {
  EvaluationPace pace{};
  SavingListeners saving_listeners{};
};

TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                          const EvalSpec& eval_spec, const RunExtras& extras);

}  // namespace muster::internal
