#pragma once

#include <string>
#include <vector>

#include "muster/orchestration/launch/launcher.h"
#include "muster/orchestration/launch/running_task_internal.h"

namespace muster::launch {

/// The command that starts a task on its host: ssh with a small script, which reads the task's
/// environment from its input, so that no list of processes shows the run's secret, and then
/// signals by name. When its input ends, because the launcher, its host or the network has gone, it
/// ends the task: SIGTERM, and SIGKILL after the grace.
std::vector<std::string> remote_command(const LaunchOptions& options, const LaunchTask& task);

/// Lines that the script reads first: the environment of the task, with the MUSTER_ variables of
/// this process under it, and an empty line. Throws InvalidArgument for a value with a line break.
std::string remote_environment(const LaunchTask& task);

/// Starts the task here, or on its host.
void start_task(const LaunchOptions& options, Running& running, const Path& log);

}  // namespace muster::launch
