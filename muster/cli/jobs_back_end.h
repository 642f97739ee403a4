#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "muster/cli/jobs.h"
#include "muster/cli/jobs_kubernetes.h"
#include "muster/orchestration/jobs/machines.h"

namespace muster::cli {

/// The flags that say who runs a job, and how that one is asked.
struct BackEndFlags {
  std::string name = "local";
  std::vector<std::string> slurm_options{};
  KubernetesFlags kubernetes{};

  bool is_local() const { return name == jobs::kLocalBackEnd; }
  bool is_slurm() const { return name == "slurm"; }
  bool is_kubernetes() const { return name == "kubernetes"; }
};

void add_back_end_flags(CLI::App& command, BackEndFlags& flags);

/// Throws UsageError for a back end that there is not, and for flags of another one.
void check_back_end(const BackEndFlags& flags);

/// The site's machine types and tiers, and the host where the job is to run: this host says nothing
/// of what a cluster has.
jobs::MachineTable machines_of(const BackEndFlags& flags, const JobsFlags& common);

/// Who runs the job, and what that one cannot do as a warning.
void lay_back_end(const BackEndFlags& flags, jobs::Submission& submission);

/// Prints what Kubernetes would run (--dry-run), or hands the job over, with its warnings. Returns
/// whether there is a job then.
bool hand_over(const BackEndFlags& flags, const JobsFlags& common, jobs::Submission& submission);

}  // namespace muster::cli
