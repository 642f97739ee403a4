#pragma once

#include <cstdint>
#include <optional>

#include "muster/nn/model/estimator_spec.h"
#include "muster/train/engine/local_run.h"

namespace muster {

/// Makes the steps of a run of training by gradients, with the other processes of the run. Where
/// its work is done is for those that derive from it. Belongs to the loop's thread.
class Stepper {
 public:
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// The replicas of this process from here on. Nothing that was captured before is used again.
  virtual void begin(ReplicaRange mine) = 0;
  /// One step: fetches batches, computes gradients, has them applied to the variables, and sees
  /// what became of it. kRolledBack is for the caller to do. Throws PeersChanged, after which
  /// undo() makes the step void; Aborted where a loss or gradient that is not finite ends the run.
  StepOutcome step();
  /// A step that was begun does not count: all values are as before it.
  virtual void undo() = 0;
  /// Throws Aborted where a step that was not checked before is not finite.
  virtual void check_finite() const {}

  /// The mean over the replicas of the last step. The first call of a step waits for the device.
  double loss();
  /// The spec of this process's first replica in the last step.
  const EstimatorSpec& spec() const { return spec_; }
  /// Number of examples in the last step, over all replicas.
  std::int64_t examples() const { return last_.examples; }
  /// Whether no replica of any process has a batch.
  bool has_input_ended() const { return has_input_ended_; }

 protected:
  /// A step of all processes, with the spec that this one has of it.
  struct Applied {
    StepResult result{};
    EstimatorSpec spec{};
  };

  /// The run outlives it.
  explicit Stepper(LocalRun& run) : run_(run) {}

  /// Before values are written to: a checkpoint may still be copied from them.
  void wait_until_copied();

  LocalRun& run() { return run_; }
  const LocalRun& run() const { return run_; }

 private:
  /// Takes the batches of the step. Returns whether any replica of this process has one.
  bool fetch();
  /// Forward and backward here, and the update of all. Nothing when the chief has ended the run.
  virtual std::optional<Applied> compute_and_apply(bool has_batch) = 0;
  /// Moves the run by a step that was not void, or counts it as a bad one.
  virtual StepOutcome settle(const StepResult& result) = 0;
  /// The weight-decay term of the last step's loss. May wait for the device.
  virtual double decay_loss(const StepResult& last) const { return last.decay_loss; }

  LocalRun& run_;
  StepResult last_;
  EstimatorSpec spec_;
  std::optional<double> last_loss_;
  bool has_input_ended_ = false;
};

}  // namespace muster
