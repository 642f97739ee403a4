#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/wait.h"
#include "muster/distribution/membership/group_internal.h"
#include "muster/distribution/membership/membership_internal.h"
#include "muster/train/engine/strategy.h"

// How the state of a run gets from one task to another.
namespace muster::internal {

/// How long a task waits for the others: one that is in the run, for a chief that is lost, as long
/// as the configuration says; one that is new, or the chief, as long as a run may take to begin.
Deadline synchronize_deadline(const RunConfig& config, bool has_state);

/// Takes part in group after group until one has the state of the run: `take` brings this task to
/// it, or others, and returns false when the run has ended meanwhile. `progress` is how far this
/// task is, step -1 without a state. False when the run has ended; afterwards membership.group() is
/// the group of the run, or a group of one that has ended. Throws Unavailable when others do not
/// come in time.
bool synchronize(Membership& membership, const Deadline& deadline,
                 const std::function<Progress()>& progress,
                 const std::function<bool(Group& group, const Source& source)>& take);

/// The next message of a state that another task sends; `what` it is, for when it does not come.
/// Throws PeersChanged.
template <typename Message>
Message take_of_state(Group& group, std::size_t from, const char* what) {
  auto message = group.take<Message>(from, what);
  if (!message) throw PeersChanged("the run has ended");
  return std::move(*message);
}
/// The bytes of a tensor in the memory of the host, in pieces, and their way into another one.
void send_state_tensor(Group& group, std::size_t to, const at::Tensor& whole);
/// Throws DataLoss, naming the task and the variable, for more or fewer bytes.
void receive_state_tensor(Group& group, std::size_t from, const std::string& name,
                          const at::Tensor& whole, const char* what);

void send_snapshot(Group& group, const RunSnapshot& own, std::size_t to);
/// In a group in which all train: brings the source's state to those who lack it, from task to task
/// over the group's connections. A task that has it sends its own, which is the same to the bit.
/// Returns the snapshot that came; nothing where `own` counts.
std::optional<RunSnapshot> spread_snapshot(Group& group, const Source& source,
                                           const RunSnapshot& own);
/// Writes what comes into the tensors of `own`, when all of it is there: a sender that is lost on
/// the way leaves no mixture. Throws PeersChanged; FailedPrecondition, naming the tasks and the
/// variable, for another model.
RunSnapshot receive_snapshot(Group& group, std::size_t from, const RunSnapshot& own);

}  // namespace muster::internal
