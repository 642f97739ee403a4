#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/estimator/towers.h"
#include "muster/optim/named_tensor.h"
#include "muster/optim/updater.h"

namespace muster {

/// One thing that the numbers of a run depend on, in words: "clipping", "global_norm 0.5".
struct RunTerm {
  std::string name{};
  std::string value{};

  bool operator==(const RunTerm&) const = default;
};

/// What must be the same in all processes of a run for their numbers to be. The chief decides.
struct RunTerms {
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

/// A run between two steps: all that a process needs to go on with it.
struct RunImage {
  std::int64_t step = 0;
  /// Batches that were left out; of two images of one step, the one with more is further.
  std::int64_t left_out = 0;
  /// Steps and batches left out when inputs without positions were opened anew.
  std::int64_t inputs_from = 0;
  /// A RunState.
  std::string state_json{};
  /// The values themselves: whoever takes an image over has its own written to.
  std::vector<NamedTensor> tensors{};
};

/// What a process adds to a step beside gradients.
struct StepNotes {
  /// By replica of the run: where its input stands after this step's batch. Only those that the
  /// process runs are looked at; none for an input that cannot tell.
  std::vector<std::optional<std::string>> positions{};
  /// Replica 0's buffers. They are sent by the process that runs it, and written to by the others.
  std::vector<at::Tensor> buffers{};
  /// Elements of the flat gradients, and how many tables have gradients by rows.
  std::int64_t flat_size = 0;
  std::size_t tables = 0;
};

/// What became of a step whose update was made elsewhere.
struct StepOutcome {
  std::int64_t present = 0;
  std::int64_t examples = 0;
  /// As in StepParts, of all replicas.
  std::vector<at::Tensor> losses{};
  /// "loss" or "gradient" where that was not finite, and nothing was updated.
  std::string not_finite{};
  /// The global step after it, where others make steps meanwhile; not set: one more than before.
  std::optional<std::int64_t> step{};
};

/// The processes of the run are others than before: what is under way is void. The loop then calls
/// Strategy::synchronize() and makes the step again.
class PeersChanged : public Unavailable {
 public:
  using Unavailable::Unavailable;
};

/// How the replicas of a run are spread over processes, and how their gradients come together.
/// distribution/ implements it; without one a process runs all replicas. Called by the loop's
/// thread alone.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// One line for the log.
  virtual std::string describe() const = 0;

  /// Meets the chief. Returns the chief's terms. Throws FailedPrecondition, naming both tasks and
  /// the term, when this process cannot take part.
  virtual RunTerms join(const RunTerms& own) = 0;

  /// Agrees on who takes part from here on, and brings every process to the state of the one that
  /// is furthest: the tensors of `image()` are then written to and `take` is called with the step
  /// and the state of the run. Called before the first step, and after PeersChanged. Throws
  /// Unavailable, naming the task, when the chief does not come (back) in time. `go_back` brings
  /// this process, the chief, back to its last checkpoint: it is called when a process lost what
  /// only it had, before the chief's image is taken.
  virtual void synchronize(const std::function<RunImage()>& image,
                           const std::function<void(const RunImage& from)>& take,
                           const std::function<void()>& go_back) = 0;
  /// The chief's RunTerms::last_step, which may be another after synchronize(); nothing where every
  /// process knows it by itself.
  virtual std::optional<std::int64_t> last_step() { return std::nullopt; }
  /// Those that this process runs until the next PeersChanged.
  virtual ReplicaRange replicas() const = 0;

  /// Adds up what all processes have. Every one gets the same, with the losses and the positions of
  /// all replicas, or nothing when the chief has ended the run. Throws PeersChanged.
  virtual std::optional<StepParts> sum(std::int64_t step, StepParts own, StepNotes& notes) = 0;

  /// Whether variables and slots live elsewhere: then update() is called in the place of sum(), and
  /// what attach() was given is a copy.
  virtual bool keeps_variables() const { return false; }
  /// Whether what update() is given becomes a step of its own, without those of others. Then it is
  /// given the mean of this process's replicas as the optimizers are to have it, as the one sum, or
  /// none where a batch is to be left out.
  virtual bool applies_each_push() const { return false; }
  /// Called once, before synchronize(). Both outlive the strategy's use of them.
  virtual void attach(const Variables& /*variables*/, const Updater& /*updater*/) {}
  /// Hands over what this process has, and has the variables' next values written. Nothing when the
  /// chief has ended the run. Throws PeersChanged, with all values as they were.
  virtual std::optional<StepOutcome> update(std::int64_t step, StepParts own, StepNotes& notes);
  /// Has the slots written that belong to the variables' values; the chief calls it before it
  /// saves. Throws PeersChanged.
  virtual void fetch_slots() {}

  /// The chief has all that it needs of others to save the last step, and takes part in nothing
  /// more: who comes or goes from here on changes nothing, and the others wait for finish() as long
  /// as the chief lives.
  virtual void announce_end() {}
  /// The chief, which has saved this step, ends the run for all. Others leave it: `early` if there
  /// is more to do, else when the chief has ended it. Throws PeersChanged when the chief is lost or
  /// goes on, since this process may then be the only one with the last steps.
  virtual void finish(std::int64_t step, bool early) = 0;
};

}  // namespace muster
