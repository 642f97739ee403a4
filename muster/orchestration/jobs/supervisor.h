#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "muster/orchestration/jobs/job_store.h"
#include "muster/orchestration/jobs/machines.h"

namespace muster::jobs {

struct SupervisorOptions {
  /// Command that is started for a job: program and arguments, to which the job's name is appended.
  std::vector<std::string> run_command{};
  Resources host{};
  /// How long it stays when there is nothing to do.
  std::chrono::milliseconds idle{5'000};
};

/// Which jobs may start now, in the order in which they do: those that lost the process that ran
/// them, then by priority, then the oldest. None overtakes one that waits for more of the host.
/// `waiting` are jobs without a process, `running` those with one.
std::vector<Job> choose_jobs(std::vector<Job> waiting, const std::vector<Job>& running,
                             const Resources& host);

/// Starts the jobs of a folder as the host allows, restarts those that lost their process, ends
/// those that run for too long, and keeps logs small. One supervisor per folder: a second one
/// returns at once. Returns when nothing is left to do. Every job runs in a process of its own,
/// which outlives this one.
void supervise(const JobStore& store, const SupervisorOptions& options);

/// Starts a supervisor for the folder in the background, unless there is one: `command` is the
/// program and its arguments that call supervise().
void ensure_supervisor(const JobStore& store, const std::vector<std::string>& command);

/// Whether a job is one for it: of this host, and not over.
bool needs_supervisor(const Job& job);

/// Whether there is one.
bool is_supervised(const JobStore& store);

/// Gives back what a file holds before its last `most_bytes`, so that it takes less of the disk.
/// Offsets stay as they are: what was given back reads as zeros. False where the file system
/// cannot.
bool trim_file(const Path& file, std::uint64_t most_bytes);

}  // namespace muster::jobs
