#pragma once

#include <string>
#include <string_view>

#include "muster/platform/cluster/process_environment.h"
#include "muster/platform/cluster/task_environment.h"

namespace muster {

/// The strategy that a run takes by default: "parameter server, synchronous" where the cluster
/// has ps, "collective" for several workers without, else "one process".
std::string_view default_strategy(const TaskEnvironment& environment);

/// Describes an environment for people: which variables were read and which were not, the cluster
/// as a table, this task and what it does, its peers, the default number of replicas, the strategy,
/// and what is odd. Throws as read_task_environment() does.
std::string explain(const EnvironmentVariables& variables);

/// The same as one JSON object, for programs.
std::string explain_json(const EnvironmentVariables& variables);

}  // namespace muster
