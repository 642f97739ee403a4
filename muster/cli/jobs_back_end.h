#pragma once

#include <CLI/App.hpp>
#include <string>

#include "muster/cli/described_flags.h"
#include "muster/cli/jobs.h"
#include "muster/orchestration/jobs/back_ends.h"
#include "muster/orchestration/jobs/machines.h"

namespace muster::cli {

/// The flags that say who runs a job, and those of all back ends.
struct BackEndFlags {
  std::string name = jobs::kLocalBackEnd;
  DescribedFlags described{};

  const jobs::BackEnd& back_end() const { return jobs::BackEnds::built_in().find(name); }
  jobs::BackEndAbilities abilities() const { return back_end().abilities(); }
};

void add_back_end_flags(CLI::App& command, BackEndFlags& flags);

/// Throws UsageError for a back end that there is not, and for flags of another one.
void check_back_end(const BackEndFlags& flags);

/// The site's machine types and tiers, and the host where the job is to run: this host says nothing
/// of what a cluster has.
jobs::MachineTable machines_of(const BackEndFlags& flags, const JobsFlags& common);

/// Names the back end in the submission, and has it complete the rest.
void lay_back_end(const BackEndFlags& flags, jobs::Submission& submission);

/// Prints what the back end would run (--dry-run), or hands the job over, with its warnings.
/// Returns whether there is a job then.
bool hand_over(const BackEndFlags& flags, const JobsFlags& common, jobs::Submission& submission);

}  // namespace muster::cli
