#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/features/batch.h"
#include "muster/nn/optim/named_tensor.h"
#include "muster/nn/optim/updater.h"
#include "muster/train/engine/partial_sums.h"
#include "muster/train/engine/run_config.h"

namespace muster {

class CheckpointParts;
struct EstimatorOptions;

/// One thing that the numbers of a run depend on, in words: "clipping", "global_norm 0.5".
struct RunTerm {
  std::string name{};
  std::string value{};

  bool operator==(const RunTerm&) const = default;
};

/// What must be the same in all processes of a run for their numbers to be. The chief decides.
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

/// By replica of the run: where its input stands; nothing for an input that cannot tell.
using InputPositions = std::vector<std::optional<std::string>>;

/// A run between two steps: all that a process needs to go on with it.
struct RunSnapshot {
  std::int64_t step = 0;
  /// Batches that were skipped; of two snapshots of one step, the one with more is further.
  std::int64_t skipped_batches = 0;
  /// Steps and skipped batches when inputs without positions were reopened.
  std::int64_t inputs_from = 0;
  /// A RunState.
  std::string state_json{};
  /// The values themselves: whoever takes a snapshot over has its own written to.
  std::vector<NamedTensor> tensors{};
};

/// What became of a step, over all replicas that took part.
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
  /// Where all inputs stand after it, as the processes told each other; not set where one process
  /// runs all replicas.
  std::optional<InputPositions> positions{};
};

/// The processes of the run are others than before: what is under way is void. The trainer then
/// calls Strategy::synchronize() and retries the step.
class PeersChanged : public Unavailable {
 public:
  using Unavailable::Unavailable;
};

/// A process of a run, as its strategy sees it: what it holds of the run, and what it can do with
/// it.
class Participant {
 public:
  virtual ~Participant() = default;

  virtual const Variables& run_variables() const = 0;
  virtual const Updater& run_updater() const = 0;
  /// Replica 0's. They are sent by the process that runs it, and written to by the others.
  virtual const std::vector<at::Tensor>& buffers() const = 0;
  /// Where the inputs that this process runs stand after the batches of the step that is being
  /// made. A place for each replica of the run; those of the others are empty.
  virtual InputPositions positions() = 0;

  /// Updates the variables here. All replicas of the step are in `total`.
  virtual StepResult update(std::int64_t step, PartialSums total) = 0;
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
};

/// Sums over the processes of a run that their devices make, while no host waits.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;

  /// Makes of what the replicas of this process gave what all of the run gave: one sum, all losses,
  /// and in `buffers` those of replica 0. It is given to this thread's stream, and can be captured
  /// where every replica has a batch.
  virtual void add_up(PartialSums& own, const std::vector<at::Tensor>& buffers) = 0;
};

/// How the replicas of a run are spread over processes, and how their gradients become one update.
/// A local one stands where a process runs all replicas; distribution/ has the others. Called by
/// the trainer's thread alone, in this order: check, join, attach, synchronize, then apply for each
/// step and finish; synchronize again after PeersChanged.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// One line for the log.
  virtual std::string describe() const = 0;
  /// Throws Unimplemented or FailedPrecondition for what cannot be trained this way.
  virtual void check(const EstimatorOptions& /*options*/) const {}

  /// Meets the chief. Returns the chief's terms. Throws FailedPrecondition, naming both tasks and
  /// the term, when this process cannot take part.
  virtual RunContract join(const RunContract& own) = 0;
  /// Called once; it outlives the strategy's use of it.
  virtual void attach(Participant& participant) = 0;

  /// Agrees on who takes part from here on, and brings every process to the state of the one that
  /// is furthest, or of the last checkpoint where a process lost what only it had. Throws
  /// Unavailable, naming the task, when the chief does not come (back) in time.
  virtual void synchronize() = 0;
  /// The chief's RunContract::last_step, which may be another after synchronize(); nothing where
  /// every process knows it by itself.
  virtual std::optional<std::int64_t> last_step() { return std::nullopt; }
  /// Those that this process runs until the next PeersChanged.
  virtual ReplicaRange replicas() const = 0;

  /// Makes one update of what all processes have, wherever the variables are; afterwards their next
  /// values are here. Nothing when the chief has ended the run. Throws PeersChanged, with all
  /// values as they were.
  virtual std::optional<StepResult> apply(std::int64_t step, PartialSums own) = 0;
  /// Why variables cannot be on that device, and their gradients summed there; empty where they
  /// can: then steps are made by step_on_device(), and not by apply().
  virtual std::string why_not_on_device(c10::Device /*device*/) const {
    return "gradients are summed on the CPU";
  }
  /// Gives a step to the device, where the sums of all processes are made.
  using GiveStep = std::function<void(DeviceSums& sums, bool has_all_replicas)>;
  /// Tells the others which replicas have a batch here, has the step given to the device if one of
  /// the run's has, and returns when the device has made it. There is a place for each replica of
  /// the run in `batches`. Nothing when the chief has ended the run. Throws PeersChanged; what was
  /// given is then over, but may have been done in part.
  virtual std::optional<StepResult> step_on_device(std::int64_t step,
                                                   std::span<const std::optional<Batch>> batches,
                                                   const GiveStep& give);
  /// Has the slots written that belong to the variables' values, where they are not here anyway;
  /// the chief calls it before it saves. Throws PeersChanged.
  virtual void fetch_slots() {}
  /// In the place of fetch_slots(): those who hold variables begin to write their parts of a
  /// checkpoint of this step, and the slots of the others are written. Null where the chief is to
  /// write everything. Throws PeersChanged.
  virtual std::shared_ptr<CheckpointParts> begin_parts(std::int64_t step);

  /// The chief has all that it needs of others to save the last step, and takes part in nothing
  /// more: who comes or goes from here on changes nothing, and the others wait for end() as long as
  /// the chief lives.
  virtual void announce_end() {}
  /// The chief, which has saved this step, ends the run for all. A signal that stopped it before
  /// the last step stops the others, too: whoever starts the chief again is to start them again.
  virtual void end(std::int64_t step, int signal) = 0;
  /// Others leave: `early` if there is more to do, else when the chief has ended the run. Returns
  /// the signal that stopped the chief, or 0. Throws PeersChanged when the chief is lost or goes
  /// on, since this process may then be the only one with the last steps.
  virtual int leave(bool early) = 0;
};

/// Of a process that runs all replicas.
std::unique_ptr<Strategy> make_local_strategy();

}  // namespace muster
