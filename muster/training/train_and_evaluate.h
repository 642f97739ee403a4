#pragma once

#include <map>
#include <string>

#include "muster/estimator/estimator.h"
#include "muster/estimator/specs.h"

namespace muster {

struct TrainAndEvaluateResult {
  /// Of the last checkpoint.
  EvaluationResult metrics{};
  /// The exports of the last checkpoint, by the exporters' names; one that made none is not there.
  std::map<std::string, Path> exports{};
};

/// Trains and evaluates in one process, in one pass over the input: evaluations happen between two
/// steps, at checkpoints, and the input goes on where it was. The checkpoint that a run begins with
/// is not evaluated; the next one is, later ones when throttle_secs have passed since the last
/// evaluation began (or by every_steps), and the last one always, once. When max_steps are reached
/// already, nothing is trained and the last checkpoint is evaluated.
///
/// After each evaluation the exporters are called with the checkpoint that was evaluated; once more
/// as the final export with the last one, whether max_steps, the input's end or a hook ended the
/// training. An exporter that fails is logged while training goes on; that of the final export is
/// thrown when all exporters were called, with the model trained, evaluated and saved. When
/// training begins, the model's inference graph goes to model_dir/graph.pb and to the event file,
/// if the model can be traced.
///
/// Throws what Estimator::train and evaluate throw; InvalidArgument for specs that cannot work;
/// Unimplemented, naming the task, in a cluster of several tasks. A signal ends an evaluation at
/// once, since the checkpoint is on the disk, and throws Interrupted.
TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                          const EvalSpec& eval_spec);

}  // namespace muster
