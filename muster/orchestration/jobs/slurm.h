#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/orchestration/jobs/submission.h"

namespace muster::jobs {

/// A job as Slurm knows it: the block of the back end "slurm".
struct SlurmRun {
  /// Its number there; empty until sbatch has told it.
  std::string id{};
  /// Why it waits, as Slurm says.
  std::string reason{};
  /// For sbatch, such as "--partition=gpu".
  std::vector<std::string> options{};

  bool operator==(const SlurmRun&) const = default;
};

/// Throws DataLoss for a block that keep() has not written.
SlurmRun slurm_run(const Job& job);
/// Makes it the job's block.
void keep(Job& job, const SlurmRun& run);

/// The job state for Slurm's name of one: "PENDING", "CANCELLED by 1000". Nothing for a name that
/// is not known.
std::optional<State> state_of_slurm(std::string_view name);

/// Resources requested from Slurm for each task of a job; all are alike, as they share one
/// allocation.
struct SlurmRequest {
  std::int64_t tasks = 1;
  std::int64_t cpus_per_task = 1;
  std::int64_t memory_mb_per_cpu = 0;
  std::int64_t gpus_per_task = 0;
};

/// The most that any role asks for.
SlurmRequest slurm_request(const std::vector<RoleTasks>& roles);

/// The script for sbatch, and the one that srun starts for each task: plain bash, which can be read
/// and submitted without muster. `folder` is the job's. Throws InvalidArgument for options of
/// sbatch that do not fit into a line.
std::string slurm_batch_script(const Submission& submission, const Path& folder);
std::string slurm_task_script(const Submission& submission, const Path& folder);

}  // namespace muster::jobs
