#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/orchestration/jobs/job.h"
#include "muster/orchestration/jobs/submission.h"

namespace muster::jobs {

/// Machines that a scale tier stands for. Counts are those of workers and parameter servers beside
/// one master.
struct ScaleTier {
  std::string master_type{};
  std::string worker_type{};
  std::int64_t workers = 0;
  std::string parameter_server_type{};
  std::int64_t ps = 0;
  /// Why it cannot be had here; empty if it can.
  std::string refusal{};
};

/// Scale tiers and machine types by name, and what this host has.
struct MachineTable {
  std::map<std::string, ScaleTier> tiers{};
  std::map<std::string, Resources> types{};
  Resources host{};

  /// Table of Cloud ML Engine's names, with the host as the system describes it.
  static MachineTable standard();
  /// Lays a site's file over it: `scaleTiers`, `machineTypes` and `host`, each by name. Throws
  /// InvalidArgument with file and line.
  void lay_over(const Path& file);

  /// A type by name: of the table, or one of Compute Engine's such as n1-highcpu-8, whose name
  /// tells its size. Nothing if it is unknown.
  std::optional<Resources> type(const std::string& name) const;
};

/// The processors that this process may use, the memory, the GPUs.
Resources this_host();

/// The table with the site's file, if there is one: `file` if not empty, else machines.yaml in
/// $XDG_CONFIG_HOME/muster or /etc/muster.
MachineTable site_machines(const Path& file);

/// Fills in what the job's tier or counts mean on this host: `job.local`'s tasks and needs.
/// Throws InvalidArgument, naming flag or line, for an unknown tier or type, and for counts and
/// types that do not go together; adds warnings for what the host has too little of.
void resolve_machines(Submission& submission, const MachineTable& table);

/// The GPUs for each task that computes, in the order chief, workers, evaluators, of those that
/// the job was given: as many as asked for, or dealt in turn where there are fewer.
std::vector<std::string> deal_gpus(const LocalRun& run);

}  // namespace muster::jobs
