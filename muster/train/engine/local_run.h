#pragma once

#include <cstdint>
#include <optional>

#include "muster/train/engine/nan_guard.h"
#include "muster/train/engine/replica_inputs.h"
#include "muster/train/engine/run_setup.h"
#include "muster/train/engine/run_state.h"
#include "muster/train/engine/training_state.h"

namespace muster {

/// The part of a run of training by gradients that is in this process: values, inputs and how far
/// they are. Those who make its steps, exchange it with other processes and save it share it.
struct LocalRun {
  /// At the resume point, if there is one. `context` outlives it.
  LocalRun(const EstimatorOptions& estimator_options, const RunContext& context,
           const InputFn& input_fn, const RunSetup& setup);

  /// Whether other processes run some of the replicas.
  bool is_shared() const { return state.towers().options().shared; }
  std::int64_t step() const { return progress.step(); }
  RunState run_state() const;
  /// In the chief: back to the last checkpoint.
  void roll_back();
  /// The same; before the first checkpoint and the first step, with the initial values that are
  /// here.
  void roll_back_or_begin_again();
  /// In the chief: the last checkpoint, when what is being written of it is written.
  std::optional<ResumePoint> last_saved();
  /// The values of another process have been written to the variables and slots here.
  void restore_snapshot(const RunSnapshot& from);
  /// Opens the inputs of `mine`.
  void open_inputs() { inputs.open(mine, step() + nan_guard.bad_steps()); }
  /// The batches in hand are used, or skipped, and count.
  void use_up_batches();

  const EstimatorOptions options;
  const RunConfig& config;
  RunProgress& progress;
  CheckpointWriter& checkpoints;
  /// Null where they are not counted.
  StepTimes* times;
  TrainingState state;
  ReplicaInputs inputs;
  NanGuard nan_guard;
  /// The replicas that this process runs now.
  ReplicaRange mine{};
  /// Batches that were taken from the inputs, of each replica one, since they began.
  std::int64_t batches_taken = 0;

 private:
  void restore(const ResumePoint& from);
  void resume_inputs(const std::optional<RunState>& saved);
};

}  // namespace muster
