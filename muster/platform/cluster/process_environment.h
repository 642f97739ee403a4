#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "muster/platform/cluster/task_environment.h"

namespace muster {

/// Environment variables by name: those of this process, or of another.
using EnvironmentVariables = std::map<std::string, std::string, std::less<>>;

EnvironmentVariables variables_of_this_process();

/// One convention by which launchers tell a process its task.
struct EnvironmentForm {
  /// As TaskEnvironment::source says it.
  std::string source;
  /// Those of its variables that are set here.
  std::vector<std::string> variables;
  /// Whether they are enough to mean a place. JOB_NAME alone, which Jenkins sets, is not.
  bool means_a_place = false;
};

/// Every form of which any variable is set, in the order in which muster takes them: TF_CONFIG;
/// JOB_NAME, TASK_INDEX, PS_HOSTS, WORKER_HOSTS, MASTER_HOST; RANK, WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT; Open MPI's OMPI_*; SLURM_*.
std::vector<EnvironmentForm> environment_forms(const EnvironmentVariables& variables);

/// The place that the first form in that order means; a cluster of one if none does. A later form
/// that means another place becomes a warning. Throws UsageError, naming the variable, if the first
/// one is wrong: the next one is not tried, since it would train something else.
TaskEnvironment read_task_environment(const EnvironmentVariables& variables);

/// The same for this process. Logs the warnings.
TaskEnvironment task_environment_from_env();

}  // namespace muster
