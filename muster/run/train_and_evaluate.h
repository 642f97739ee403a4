#pragma once

#include <map>
#include <string>

#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/specs.h"

namespace muster {

struct TrainAndEvaluateResult {
  /// Metrics of the last checkpoint. Empty in a task that does not evaluate: worker, ps, chief.
  EvaluationResult metrics{};
  /// The exports of the last checkpoint, by the exporters' names; one that made none is not there.
  std::map<std::string, Path> exports{};
};

/// Trains and evaluates, as the task of a cluster that RunConfig says this process is, or alone.
///
/// Alone: in one pass over the input. Evaluations happen between two steps, at checkpoints, and the
/// input resumes where it was. The checkpoint that a run begins with is not evaluated; the next one
/// is, later ones when throttle_secs have passed since the last evaluation began (or by
/// every_steps), and the last one always, once. When max_steps are reached already, nothing is
/// trained and the last checkpoint is evaluated.
///
/// After each evaluation the exporters are called with the checkpoint that was evaluated; again
/// as the final export with the last one, whether max_steps, the input's end or a hook ended the
/// training. An exporter that fails is logged while training continues; that of the final export is
/// thrown when all exporters were called, with the model trained, evaluated and saved. When
/// training begins, the model's inference graph goes to model_dir/graph.pb and to the event file,
/// if the model can be traced.
///
/// In a cluster all tasks call it with the same arguments. Without
/// RunConfig::cluster.train_distribute, variables live on the ps if there are some, and else every
/// task has a copy.
/// - ps: holds variables until the chief ends the run.
/// - worker: trains; neither evaluates nor saves.
/// - chief: trains, saves, and writes graph.pb; leaves evaluations and exports to an evaluator.
/// - master, or worker 0 of a cluster without either: as a chief, and evaluates and exports as one
///   process does, but in a thread beside the training: the newest checkpoint when it is due, and
///   the last one after the other tasks were told of the end. Input function and hooks of the
///   EvalSpec are then called in that thread. What fails there is thrown at the end.
/// - evaluator: waits start_delay_secs, then evaluates and exports the newest checkpoint of
///   model_dir, which it shares with the chief, whenever there is one and throttle_secs have
///   passed. It ends with the last one: that of max_steps, or when the chief has said that the run
///   is over.
///
/// Throws what Estimator::train and evaluate throw; InvalidArgument for specs that cannot work and
/// for a second evaluator; Unimplemented or FailedPrecondition for what this cluster cannot train;
/// Unavailable in an evaluator that sees no new checkpoint for session_creation_timeout_secs. A
/// signal ends an evaluation at once, since the checkpoint is on the disk, and throws Interrupted.
TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                          const EvalSpec& eval_spec);

}  // namespace muster
