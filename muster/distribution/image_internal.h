#pragma once

#include <cstddef>

#include "muster/base/wait.h"
#include "muster/distribution/group_internal.h"
#include "muster/estimator/strategy.h"

// How the state of a run gets from one task to another.
namespace muster::internal {

/// How long a task waits for the others: one that is in the run, for a chief that is lost, as long
/// as the configuration says; one that is new, or the chief, as long as a run may take to begin.
Deadline synchronize_deadline(const RunConfig& config, bool has_state);

void send_image(Group& group, const RunImage& own, std::size_t to);
/// Writes what comes into the tensors of `own`, when all of it is there: a sender that is lost on
/// the way leaves no mixture. Throws PeersChanged; FailedPrecondition, naming the tasks and the
/// variable, for another model.
RunImage receive_image(Group& group, std::size_t from, const RunImage& own);

}  // namespace muster::internal
