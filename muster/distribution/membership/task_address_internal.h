#pragma once

#include <string>
#include <string_view>

#include "muster/platform/cluster/task_environment.h"

// Where the tasks of a cluster are, and who belongs to it.
namespace muster::internal {

/// The chief of the cluster: its job "chief" or "master", else worker 0. Throws InvalidArgument for
/// a cluster without one, Unimplemented for a rendezvous at another program's store.
Peer chief_of(const TaskEnvironment& environment);

/// Whether the cluster has this task ("worker:1"). The chief's own cluster lists all who may come;
/// that of another task may have gaps, and then any index of its jobs may.
bool has_task(const TaskEnvironment& environment, std::string_view task);

/// Where this task listens: at its own address where only this machine reaches it, else on all
/// interfaces, if `is_open`. Throws FailedPrecondition if not, InvalidArgument for a cluster
/// without this task.
std::string listening_address(const TaskEnvironment& environment, const Peer& chief, bool is_open);

/// Where others reach a task that listens there.
std::string reached_at(const TaskEnvironment& environment, const std::string& listening);

/// Where the task itself reaches what listens there: its name may be known to others alone.
std::string at_home(const std::string& listening);

}  // namespace muster::internal
