// Who runs a job: this host, Slurm, Kubernetes or another back end of the table.
#include "muster/cli/jobs_back_end.h"

#include <fmt/format.h>

#include <chrono>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster::cli {
namespace {

constexpr jobs::Resources kAnyHost{1e6, 1e9, 1'000'000};

// "local, this host; slurm, its queue; or kubernetes, a cluster that kubectl talks to".
std::string back_ends_in_words() {
  const auto& all = jobs::BackEnds::built_in().all();
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0) text += i + 1 < all.size() ? "; " : "; or ";
    text += fmt::format("{}, {}", all[i]->name(), all[i]->summary());
  }
  return text;
}

void refuse_flags_of_others(const BackEndFlags& flags) {
  const jobs::FlagValues given = flags.described.values();
  for (const auto& back_end : jobs::BackEnds::built_in().all()) {
    if (back_end->name() == flags.name) continue;
    for (const jobs::BackEndFlag& flag : back_end->flags()) {
      if (flag.is_ignored_elsewhere || !given.has(flag.name)) continue;
      throw UsageError("{} goes with --backend {}", flag.name, back_end->name());
    }
  }
}

}  // namespace

void add_back_end_flags(CLI::App& command, BackEndFlags& flags) {
  command.add_option("--backend", flags.name, back_ends_in_words())->capture_default_str();
  for (const auto& back_end : jobs::BackEnds::built_in().all()) {
    flags.described.add(command, back_end->flags());
  }
}

void check_back_end(const BackEndFlags& flags) {
  if (!jobs::BackEnds::built_in().has(flags.name)) {
    throw UsageError("--backend {}: there is no such back end in this version; there are {}",
                     flags.name, jobs::BackEnds::built_in().names_text());
  }
  refuse_flags_of_others(flags);
}

jobs::MachineTable machines_of(const BackEndFlags& flags, const JobsFlags& common) {
  jobs::MachineTable machines = jobs::site_machines(common.machines);
  if (!flags.abilities().is_bound_by_host) machines.host = kAnyHost;
  return machines;
}

void lay_back_end(const BackEndFlags& flags, jobs::Submission& submission) {
  submission.job.back_end = flags.name;
  submission.flags = flags.described.values();
  flags.back_end().prepare(submission);
}

bool hand_over(const BackEndFlags& flags, const JobsFlags& common, jobs::Submission& submission) {
  for (const std::string& warning : submission.warnings) log::warning("{}", warning);
  if (const auto text = flags.back_end().preview(submission)) {
    fmt::print("{}", *text);
    return false;
  }
  submission.job.create_time =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  // An image has an environment of its own.
  const auto environment =
      flags.abilities().runs_image ? std::vector<std::string>() : own_environment();
  jobs::submit_job(jobs::BackEnds::built_in(), job_store(common), submission, environment);
  return true;
}

}  // namespace muster::cli
