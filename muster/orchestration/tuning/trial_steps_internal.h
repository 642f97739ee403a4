#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace muster::tuning {

/// Throws FailedPrecondition where this process is in no allocation of Slurm.
void check_allocation();

/// Runs `command` as a job step of this name in the allocation that this process is in, with the
/// resources of one of its tasks, on any node that has them. Exits as `command` does, with 128 + n
/// for signal n, and with 75 where Slurm does not start it.
std::vector<std::string> step_command(const std::string& name,
                                      const std::vector<std::string>& command);

/// Signal to send to a process of step_command() so that its `command` gets SIGTERM, once, or
/// SIGKILL: srun answers SIGTERM by killing, and SIGKILL would leave the step without it.
int signal_for_step(int number);

/// Ends steps of this allocation with this name, and with those that begin with it and a slash:
/// their programs are asked to save first. Throws Unavailable where Slurm does not answer as it
/// should or a step does not end, and as process::run_captured() does.
void end_steps(const std::string& name, std::chrono::milliseconds grace);

}  // namespace muster::tuning
