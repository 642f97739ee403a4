#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/platform/cluster/task_environment.h"

namespace muster::launch {

/// Which tasks a cluster has, on this host or on others. The defaults are those of the samples'
/// script: a master, two workers and a ps.
struct LocalClusterOptions {
  /// "master", which also evaluates, or "chief".
  std::string chief{job::kMaster};
  std::int64_t workers = 2;
  std::int64_t ps = 1;
  /// Go with a chief only. They have no port.
  std::int64_t evaluators = 0;
  /// Dealt in turn to chief, workers and evaluators as CUDA_VISIBLE_DEVICES; ps get none. Without a
  /// value the tasks see what the launcher sees; an empty list hides all.
  std::optional<std::vector<std::string>> gpus{};
  /// One process that is told of no cluster; the counts are not looked at.
  bool is_single = false;
  /// Where tasks run, "HOST" or "USER@HOST", dealt in turn to the chief, workers and ps; evaluators
  /// are with the chief. Without any, all tasks are here.
  std::vector<std::string> hosts{};
  /// The map `job` of TF_CONFIG, as JSON, for programs that look at it.
  std::optional<std::string> job_json{};
};

/// One task to be started.
struct LaunchTask {
  TaskSpec task;
  /// Name of its files: "master", "worker0", "ps" (or "ps0" if there are several).
  std::string name;
  /// "localhost:27182", or its host's; empty for an evaluator.
  std::string address;
  /// NAME=value, over the launcher's own environment.
  std::vector<std::string> environment;
  /// The processor on which it runs alone, if so.
  std::optional<int> processor{};
  /// The host that ssh is given; empty for this one.
  std::string host{};

  bool is_chief() const;
  bool is_ps() const { return task.type == job::kPs; }
  bool is_evaluator() const { return task.type == job::kEvaluator; }
};

/// How many ports the cluster takes: chief, ps, workers.
std::size_t ports_needed(const LocalClusterOptions& options);

/// The tasks in the order in which they start (ps, chief, workers, evaluators), each with its
/// TF_CONFIG. Ports go to the chief, then to the ps, then to the workers. Throws InvalidArgument
/// for counts that make no cluster.
std::vector<LaunchTask> local_cluster(const LocalClusterOptions& options,
                                      const std::vector<std::uint16_t>& ports);

}  // namespace muster::launch
