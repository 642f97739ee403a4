// Who runs a job: this host, Slurm or Kubernetes.
#include "muster/cli/jobs_back_end.h"

#include <chrono>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cli/repeatable.h"
#include "muster/orchestration/jobs/back_end.h"

namespace muster::cli {
namespace {

constexpr jobs::Resources kAnyHost{1e6, 1e9, 1'000'000};

}  // namespace

void add_back_end_flags(CLI::App& command, BackEndFlags& flags) {
  command
      .add_option(
          "--backend", flags.name,
          "local, this host; slurm, its queue; or kubernetes, a cluster that kubectl talks to")
      ->capture_default_str();
  repeatable(command.add_option(
      "--slurm-option", flags.slurm_options,
      "An option of sbatch in one word, as in --slurm-option=--partition=gpu; may be repeated"));
  add_kubernetes_flags(command, flags.kubernetes);
}

void check_back_end(const BackEndFlags& flags) {
  if (!flags.is_local() && !flags.is_slurm() && !flags.is_kubernetes()) {
    throw UsageError(
        "--backend {}: there is no such back end in this version; there are local, slurm and "
        "kubernetes",
        flags.name);
  }
  if (!flags.is_slurm() && !flags.slurm_options.empty()) {
    throw UsageError("--slurm-option goes with --backend slurm");
  }
  if (!flags.is_kubernetes() && flags.kubernetes.is_dry_run) {
    throw UsageError("--dry-run goes with --backend kubernetes");
  }
}

jobs::MachineTable machines_of(const BackEndFlags& flags, const JobsFlags& common) {
  jobs::MachineTable machines = jobs::site_machines(common.machines);
  if (!flags.is_local()) machines.host = kAnyHost;
  return machines;
}

void lay_back_end(const BackEndFlags& flags, jobs::Submission& submission) {
  submission.job.back_end = flags.name;
  if (!flags.is_slurm()) return;
  submission.job.slurm = jobs::SlurmRun{.options = flags.slurm_options};
  const jobs::TrainingInput& input = submission.job.training_input;
  if (input.priority != 0) {
    submission.warnings.emplace_back("scheduling.priority has no meaning in Slurm");
  }
  if (input.max_wait_time) {
    submission.warnings.emplace_back("scheduling.maxWaitTime has no meaning in Slurm");
  }
}

bool hand_over(const BackEndFlags& flags, const JobsFlags& common, jobs::Submission& submission) {
  for (const std::string& warning : submission.warnings) log::warning("{}", warning);
  if (flags.is_kubernetes() && flags.kubernetes.is_dry_run) {
    print_manifests(submission, flags.kubernetes);
    return false;
  }
  const jobs::JobStore store = job_store(common);
  submission.job.create_time =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  if (flags.is_kubernetes()) {
    submit_to_cluster(store, submission, flags.kubernetes);
  } else if (flags.is_slurm()) {
    jobs::submit_to(*jobs::make_back_end(flags.name), store, submission, own_environment());
  } else {
    store.create(submission.job, own_environment());
    ensure_supervised(store, common, {submission.job});
  }
  return true;
}

}  // namespace muster::cli
