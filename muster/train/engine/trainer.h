#pragma once

#include <memory>

#include "muster/train/engine/input.h"
#include "muster/train/engine/train_options.h"

namespace muster {

class Model;

/// A run of training by gradients, whose steps its caller makes: Estimator::train(), or a loop
/// written by hand.
///
///   const auto trainer = estimator.trainer(input_fn, {.max_steps = 1'000});
///   trainer->begin();
///   while (trainer->step()) look_at(trainer->session());
///   const TrainResult result = trainer->finish();
///
/// Every step is one update of all replicas, whichever processes run them, with hooks and
/// checkpoints as they are due. Belongs to one thread, whose work for a GPU goes to the run's
/// stream until this is destroyed. What a call throws ends the run: then nothing more is saved, and
/// others take this process for lost.
class Trainer {
 public:
  /// Estimator::trainer() makes one with the hooks that estimators have.
  Trainer(const EstimatorOptions& options, const RunConfig& config, const InputFn& input_fn,
          const TrainOptions& train_options, const HooksOfRun& hooks);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Joins the cluster, restores the latest checkpoint, and calls the hooks that come before the
  /// first step.
  void begin();
  /// Makes one step. Returns whether there are more to make. The run may end without one: at the
  /// end of the input, by a signal, or because it was over when it began.
  bool step();
  /// Whether there are no more steps to make.
  bool is_over() const;
  /// After the last step: saves it, and ends the run for the other processes if this is the chief.
  /// Throws Interrupted when a signal ended the run.
  TrainResult finish();

  /// As hooks see it. session().request_stop() ends the run with the next step().
  Session& session();
  const Session& session() const;
  /// Model of this process, with the values as they are between two steps, on the device that
  /// trains.
  std::shared_ptr<Model> current_model();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
