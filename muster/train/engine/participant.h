#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/optim/clipping.h"
#include "muster/nn/optim/named_tensor.h"
#include "muster/nn/optim/tensor_part.h"
#include "muster/nn/optim/updater.h"
#include "muster/train/engine/partial_sums.h"
#include "muster/train/engine/run_config.h"
#include "muster/train/engine/tensor_codec.h"

namespace muster {

/// One thing that the numbers of a run depend on, in words: "clipping", "global_norm 0.5".
struct RunTerm {
  std::string name{};
  std::string value{};

  bool operator==(const RunTerm&) const = default;
};

/// The terms that all processes of a run must share for their numbers to be the same. The chief
/// decides.
struct RunContract {
  static constexpr std::int64_t kNoLastStep = std::numeric_limits<std::int64_t>::max();

  std::int64_t replicas = 1;
  int threads_per_replica = 1;
  std::uint64_t seed = 0;
  ComputeType precision = ComputeType::kFloat32;
  /// arithmetic().fingerprint()
  std::string arithmetic{};
  /// The global step at which the chief ends the run; what others were told does not count.
  std::int64_t last_step = kNoLastStep;
  /// Optimizers, clipping, the model and what the program adds: see terms_of() in run_terms.h.
  std::vector<RunTerm> others{};
};

/// Input positions by replica of the run; nothing for an input without positions.
using InputPositions = std::vector<std::optional<std::string>>;

/// A run between two steps: all that a process needs to continue with it.
struct RunSnapshot {
  std::int64_t step = 0;
  /// Batches that were skipped; of two snapshots of one step, the one with more is further.
  std::int64_t skipped_batches = 0;
  /// Steps and skipped batches when inputs without positions were reopened.
  std::int64_t inputs_from = 0;
  /// A RunState.
  std::string state_json{};
  /// The live values: restoring a snapshot writes to those of the process that restores it.
  std::vector<NamedTensor> tensors{};
};

/// The outcome of a step, over all replicas that took part.
struct StepResult {
  /// Replicas that had a batch. With none the input has ended, and nothing was updated.
  std::int64_t present = 0;
  std::int64_t examples = 0;
  /// As in PartialSums, of all replicas.
  std::vector<at::Tensor> losses{};
  /// The weight-decay term of the loss.
  double decay_loss = 0;
  /// "loss" or "gradient" where that was not finite, and nothing was updated.
  std::string not_finite{};
  /// Gradients overflowed in float16, and nothing was updated; the loss scale is smaller now.
  bool overflowed = false;
  /// The global step after it, where others make steps meanwhile; not set: one more than before.
  std::optional<std::int64_t> step{};
  /// Positions of all inputs after it, as the processes reported them to each other; not set where
  /// one process runs all replicas.
  std::optional<InputPositions> positions{};
};

/// The processes of the run are others than before: what is under way is void. The trainer then
/// calls RunMembership::synchronize() and retries the step.
class PeersChanged : public Unavailable {
 public:
  using Unavailable::Unavailable;
};

/// Reads a tensor of a checkpoint by its name, as the model has it.
using ReadSaved = std::function<at::Tensor(const std::string& name)>;

/// The part of a run that a process holds where slots and averages are divided
/// (RunConfig::sharding). Others have the rest, and no process has all of it.
class HeldParts {
 public:
  virtual ~HeldParts() = default;

  /// From here on this process holds slots and averages of these elements of the dense variables,
  /// with the values that a run begins with, and updates them alone.
  virtual void hold(const FlatRange& range) = 0;
  /// Slots and averages of every dense variable, as far as they are held.
  virtual std::vector<TensorPart> held() const = 0;
  /// In the chief: reads the last checkpoint; null where there is none, and the run begins.
  virtual ReadSaved last_saved() = 0;
  /// The held values, slots and averages, as a checkpoint has them; views of live values.
  virtual EncodedTensors encoded() const = 0;
};

/// Brings the norms of the gradients of all processes together, each of which has a range of the
/// sum (Gradients::first). Nothing when the run has ended, or this process is to stop.
using JoinNorms = std::function<std::optional<SquareSums>(const Gradients& held)>;

/// A process of a run, as its strategy sees it: what it holds of the run, and what it can do with
/// it.
class Participant {
 public:
  virtual ~Participant() = default;

  virtual const Variables& run_variables() const = 0;
  virtual const Updater& run_updater() const = 0;
  /// Replica 0's. They are sent by the process that runs it, and written to by the others.
  virtual const std::vector<at::Tensor>& buffers() const = 0;
  /// Positions of the inputs that this process runs after the batches of the step that is being
  /// made. An element for each replica of the run; those of the others are empty.
  virtual InputPositions positions() = 0;

  /// Updates the variables here. All replicas of the step are in `total`.
  virtual StepResult update(std::int64_t step, PartialSums total) = 0;
  /// The same where `total` has the sum of the elements that HeldParts::hold() says alone. `join`
  /// is called, or not, by all processes alike, before anything is changed; where it gives nothing,
  /// nothing is updated, and there is no result. The default throws Internal.
  virtual std::optional<StepResult> update_held(std::int64_t step, PartialSums total,
                                                const JoinNorms& join);
  /// Instead: makes of this process's own replicas, as if there were no others, the mean gradients
  /// that the optimizers are to have. They are the one sum of `own` then, or none where something
  /// is not finite. Throws Aborted where that ends the run.
  virtual StepResult prepare_local_gradients(PartialSums& own) = 0;
  /// The weight-decay term of the loss, with the values that are here.
  virtual double decay_loss() const = 0;

  /// The run as it is here.
  virtual RunSnapshot snapshot() = 0;
  /// The tensors of snapshot() have been written to: the rest is taken over.
  virtual void restore_snapshot(const RunSnapshot& from) = 0;
  /// In the chief: back to the last checkpoint, since a process lost what only it had.
  virtual void roll_back_to_checkpoint() = 0;
  /// Where GradientReduction::is_sharded(); else throws Internal.
  virtual HeldParts& held_parts();
};

}  // namespace muster
