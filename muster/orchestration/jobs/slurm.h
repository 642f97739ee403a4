#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/orchestration/jobs/back_end.h"

namespace muster::jobs {

/// Jobs that Slurm runs: one allocation for all tasks of a job. Talks to it through sbatch, squeue,
/// scontrol, scancel and sacct. The folder of jobs must be one that all nodes see.
///
///     JOBS/NAME/job.sbatch, task.sh    what Slurm runs, and what each task of it does
///               secret                 proves that tasks belong to the run; its owner's alone
///               result                 how the job ended, by job.sbatch
///               retries                how often job.sbatch has queued it again
///               attempts/N/TASK.log, TASK.status
std::unique_ptr<BackEnd> make_slurm_back_end();

/// What Slurm's name of a state means for a job: "PENDING", "CANCELLED by 1000". Nothing for a name
/// that is not known.
std::optional<State> state_of_slurm(std::string_view name);

/// What Slurm is asked for each task of a job; all are alike, since they share one allocation.
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
