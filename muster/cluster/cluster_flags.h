#pragma once

#include <cstdint>
#include <string>

#include "muster/cluster/task_environment.h"

namespace muster {

class FlagSet;

/// What the flags of a training program ask of its cluster.
struct ClusterFlags {
  /// --sync
  bool sync = true;
  /// --strategy: "auto", "ps" or "collective", as for RunConfig::train_distribute
  std::string strategy = "auto";
  /// --max-staleness
  std::int64_t max_staleness = 0;
  /// --backup-replicas
  std::int64_t backup_replicas = 0;
  /// --ps-log
  bool ps_log = false;
  /// --join-timeout-secs, RunConfig::join_timeout
  std::int64_t join_timeout_secs = 60;
};

/// Adds --sync, --max-staleness, --ps-log, --strategy and --join-timeout-secs to the flags of a
/// program. `flags` must live as long as the set.
void add_cluster_flags(FlagSet& set, ClusterFlags& flags);

/// Throws UsageError, with the flag and what to do, for one that makes no sense in the cluster that
/// this process is a task of.
void check_cluster_flags(const ClusterFlags& flags, const TaskEnvironment& task);

}  // namespace muster
