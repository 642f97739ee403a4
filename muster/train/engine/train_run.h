#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/nn/model/estimator_spec.h"
#include "muster/nn/optim/named_tensor.h"
#include "muster/train/engine/checkpoint_writer.h"
#include "muster/train/engine/hook.h"
#include "muster/train/engine/run_progress.h"
#include "muster/train/engine/step_times.h"

namespace muster {

/// The outcome of one step.
enum class StepOutcome {
  /// It is made, or its batch is skipped, or it is retried.
  kGoesOn,
  /// The values are those of the last checkpoint again.
  kRolledBack,
  /// Other processes ended the run without it.
  kRunEnded,
  /// No replica has a batch.
  kInputEnded,
};

/// The parts of a session that its run uses. All outlive the run.
struct RunContext {
  const RunConfig& config;
  RunProgress& progress;
  CheckpointWriter& checkpoints;
  /// Null where they are not counted.
  StepTimes* times = nullptr;
};

/// The part of a training session that learns, with its inputs. When it is made it has the values
/// of the latest checkpoint, if there is one, and RunProgress is at its step. Belongs to the loop's
/// thread.
class TrainRun {
 public:
  virtual ~TrainRun() = default;

  // As Session has them.
  virtual double loss() = 0;
  virtual const EstimatorSpec& spec() const = 0;
  virtual std::int64_t step_examples() const = 0;
  virtual std::map<std::string, double> learning_rates() const = 0;
  virtual std::vector<NamedTensor> variables() const = 0;

  /// The step at which there is nothing more to learn, if there is such a thing.
  virtual std::optional<std::int64_t> end_of_learning() const { return std::nullopt; }
  /// Called once, if there are steps to make.
  virtual void open_input() = 0;
  /// Logs what is about to be trained.
  virtual void log_begin() const = 0;
  /// Makes one update and moves RunProgress, or skips a bad batch. Calls
  /// CheckpointWriter::wait_until_copied() before it changes what content() showed.
  virtual StepOutcome make_step(Session& session) = 0;
  /// Called before content(): brings here what a checkpoint needs and this process does not have.
  /// The step may be another afterwards.
  virtual void gather() {}
  virtual CheckpointContent content() const = 0;
  /// Called when there are no more steps to make, before the last checkpoint is saved; `early` says
  /// that something asked for a stop. Returns the signal that stopped the chief, or 0. Nothing when
  /// this process cannot leave the run yet: it then makes the steps that are to be made, if any,
  /// and asks again.
  virtual std::optional<int> leave(bool /*early*/) { return 0; }
  /// Called after the last checkpoint is saved; `signal` is what stopped the run before its last
  /// step, or 0.
  virtual void end(int /*signal*/) {}
};

using TrainRunFactory = std::function<std::unique_ptr<TrainRun>(const RunContext&)>;

}  // namespace muster
