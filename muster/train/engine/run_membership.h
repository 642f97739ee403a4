#pragma once

#include <cstdint>
#include <optional>

#include "muster/train/engine/participant.h"

namespace muster {

/// Which processes take part in a run, which replicas each has, and how they begin and end
/// together. Called by the trainer's thread alone, in this order: join, synchronize, again after
/// each PeersChanged, and at the end announce_end and end in the chief, leave in the others.
class RunMembership {
 public:
  virtual ~RunMembership() = default;

  /// Meets the chief. Returns the chief's terms. Throws FailedPrecondition, naming both tasks and
  /// the term, when this process cannot take part.
  virtual RunContract join(const RunContract& own) = 0;
  /// After Strategy::attach(): agrees on who takes part from here on, and brings every process to
  /// the state of the one that is furthest, or of the last checkpoint where a process lost what
  /// only it had. Throws Unavailable, naming the task, when the chief does not come (back) in time.
  virtual void synchronize() = 0;
  /// The chief's RunContract::last_step, which may be another after synchronize(); nothing where
  /// every process knows it by itself.
  virtual std::optional<std::int64_t> last_step() { return std::nullopt; }
  /// The replicas that this process runs until the next PeersChanged.
  virtual ReplicaRange replicas() const = 0;

  /// The chief has all that it needs of others to save the last step, and takes part in nothing
  /// more: who comes or goes from here on changes nothing, and the others wait for end() as long as
  /// the chief lives.
  virtual void announce_end() {}
  /// The chief, which has saved this step, ends the run for all. A signal that stopped it before
  /// the last step stops the others, too: they are to be started again with the chief.
  virtual void end(std::int64_t step, int signal) = 0;
  /// Others leave: `early` if there is more to do, else when the chief has ended the run. Returns
  /// the signal that stopped the chief, or 0. Throws PeersChanged when the chief is lost or goes
  /// on, since this process may then be the only one with the last steps.
  virtual int leave(bool early) = 0;
};

}  // namespace muster
