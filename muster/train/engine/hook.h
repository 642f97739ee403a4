#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/nn/model/estimator_spec.h"
#include "muster/nn/optim/named_tensor.h"
#include "muster/train/engine/run_config.h"

namespace muster {

class EventWriter;

class Session;

/// Told of the checkpoints of a run. Only on the chief.
class CheckpointSaverListener {
 public:
  virtual ~CheckpointSaverListener() = default;

  virtual void begin(Session& session) { (void)session; }
  virtual void before_save(Session& session, std::int64_t step) { (void)session, (void)step; }
  /// The checkpoint of `step` is whole on the disk. True ends the training.
  virtual bool after_save(Session& session, std::int64_t step) {
    return (void)session, (void)step, false;
  }
  virtual void end(Session& session, std::int64_t step) { (void)session, (void)step; }
};

using SavingListeners = std::vector<std::shared_ptr<CheckpointSaverListener>>;

/// A run of training, evaluation or prediction, as its hooks see it. Belongs to the loop's thread.
class Session {
 public:
  virtual ~Session() = default;

  virtual Mode mode() const = 0;
  virtual const RunConfig& config() const = 0;
  /// Updates made so far; in evaluation and prediction the checkpoint's.
  virtual std::int64_t global_step() const = 0;
  /// Where this run writes its events: the model folder, or eval[_name] below it.
  virtual const Path& output_dir() const = 0;
  /// The loss of the last step, the mean over its replicas. The first call of a step waits for the
  /// device.
  virtual double loss() = 0;
  /// Spec that replica 0's model returned in the last step; its tensors are valid until the next
  /// one.
  virtual const EstimatorSpec& spec() const = 0;
  /// How many examples the last step saw, over all replicas.
  virtual std::int64_t step_examples() const = 0;
  /// The rate that each optimizer used in the last step, by its prefix.
  virtual std::map<std::string, double> learning_rates() const = 0;
  /// The event file of output_dir(), made when first asked for.
  virtual EventWriter& events() = 0;
  /// Variables, slots and moving averages by name. Views of live values: read them before the next
  /// step.
  virtual std::vector<NamedTensor> variables() const = 0;

  /// Saves a checkpoint of the current step, unless that step is saved already. With listeners it
  /// returns when the checkpoint is whole on the disk and they were told; without, it is written in
  /// the background. A save that fails is logged, and training continues; in Hook::end it is tried
  /// again, and then train() fails. Only in training.
  virtual void save_checkpoint(const SavingListeners& listeners) = 0;

  /// Ends the run after the current step. The first reason given is logged.
  virtual void request_stop(std::string_view reason) = 0;
  virtual bool stop_requested() const = 0;
};

/// Metric values by name, with `loss` and `global_step`.
using EvaluationResult = std::map<std::string, double>;

/// Something that happens beside the steps of a run. All calls come from the loop's thread, in this
/// order: begin, after_create_session (again after each roll-back), then before_run and after_run
/// for every step, and end unless an exception ended the run.
///
/// before_evaluation and after_evaluation enclose an evaluation. Its own hooks (EvalSpec's,
/// EvaluateOptions') have both for each, before begin and after end, with the evaluation's session
/// and in the thread that evaluates. The hooks of a training (TrainSpec's) have both, between two
/// steps and with the training's session, for each evaluation that the training waits for: that of
/// train_and_evaluate in one process, except for the last, which comes when the training has ended.
class Hook {
 public:
  virtual ~Hook() = default;

  virtual void begin(Session& session) { (void)session; }
  virtual void after_create_session(Session& session) { (void)session; }
  virtual void before_run(Session& session) { (void)session; }
  virtual void after_run(Session& session) { (void)session; }
  virtual void end(Session& session) { (void)session; }
  virtual void before_evaluation(Session& session) { (void)session; }
  /// The results are written already. Not called when an exception ended the evaluation.
  virtual void after_evaluation(Session& session, const EvaluationResult& metrics) {
    (void)session, (void)metrics;
  }
};

using HookPtr = std::shared_ptr<Hook>;
using Hooks = std::vector<HookPtr>;

}  // namespace muster
