#pragma once

#include <string>
#include <vector>

#include "muster/data/features/batch.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/specs.h"

namespace muster::internal {

/// Result of an evaluation's rehearsal before training.
struct EvaluationRehearsal {
  /// One or two of the evaluation's input.
  Batch examples{};
  /// The names of what evaluations find, as far as they are known.
  std::vector<std::string> metrics{};
};

/// Looks before the first step of a training whether it can be evaluated: opens the evaluation's
/// input and has the model, as it is before training, evaluate an example or two of it. Throws what
/// the first evaluation would throw.
EvaluationRehearsal dry_run_evaluation(const Estimator& estimator, const EvalSpec& spec);

/// Looks whether every exporter can export the model. Throws what the first export would throw,
/// naming the exporter.
void rehearse_exports(const Estimator& estimator, const EvalSpec& spec);

}  // namespace muster::internal
