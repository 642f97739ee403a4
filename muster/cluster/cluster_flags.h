#pragma once

#include <cstdint>

#include "muster/cluster/task_environment.h"

namespace muster {

/// What the flags of a training program ask of its cluster.
struct ClusterFlags {
  /// --sync
  bool sync = true;
  /// --collective
  bool collective = false;
  /// --max-staleness
  std::int64_t max_staleness = 0;
  /// --backup-replicas
  std::int64_t backup_replicas = 0;
  /// --ps-log
  bool ps_log = false;
};

/// Throws UsageError, with the flag and what to do, for one that makes no sense in the cluster that
/// this process is a task of.
void check_cluster_flags(const ClusterFlags& flags, const TaskEnvironment& task);

}  // namespace muster
