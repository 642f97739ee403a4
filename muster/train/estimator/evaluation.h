#pragma once

#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/evaluation_events.h"
#include "muster/train/estimator/evaluation_model.h"

namespace muster {

/// One call of Estimator::evaluate on a model that is loaded: runs the input through it, merges the
/// metrics, and writes them to `output_dir` as events, which a reader sees when this returns, and
/// as one line of metrics.jsonl.
EvaluationResult run_evaluation(EvaluationModel& model, const RunConfig& config,
                                const InputFn& input_fn, const EvaluateOptions& evaluate_options,
                                const Path& output_dir, EvaluationEvents& events);

}  // namespace muster
