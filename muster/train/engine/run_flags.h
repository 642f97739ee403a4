#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/train/engine/run_config.h"

namespace muster {

class FlagSet;

/// Flags of a training program that describe its cluster.
struct ClusterFlags {
  /// --sync
  bool sync = true;
  /// --strategy: "auto", "ps" or "collective", as for ClusterConfig::train_distribute
  std::string strategy = "auto";
  /// --max-staleness
  std::int64_t max_staleness = 0;
  /// --backup-replicas
  std::int64_t backup_replicas = 0;
  /// --ps-log
  bool ps_log = false;
  /// --join-timeout-secs, ClusterConfig::join_timeout
  std::int64_t join_timeout_secs = 60;
  /// --min-workers, ClusterConfig::min_workers
  std::int64_t min_workers = 0;
  /// --tls, TlsConfig::enabled
  bool tls = false;
};

/// Adds these flags to those of a program. `flags` must live as long as the set.
void add_cluster_flags(FlagSet& set, ClusterFlags& flags);

/// Throws UsageError, with the flag and what to do, for one that makes no sense in the cluster that
/// this process is a task of.
void check_cluster_flags(const ClusterFlags& flags, const TaskEnvironment& task);

/// The checked configuration that the flags ask for, as this task of a cluster.
ClusterConfig cluster_config(const ClusterFlags& flags, TaskEnvironment task);

/// Flags of a training program that describe its run, whatever it trains.
///
///   muster::RunFlags run;
///   muster::FlagSet set("Trains a network.");
///   muster::add_run_flags(set, run);
///   if (!set.parse(argc, argv)) return 0;
///   muster::Estimator estimator(options, muster::run_config(run));
struct RunFlags {
  /// --job-dir, RunConfig::model_dir
  std::string job_dir{};
  /// --seed
  std::uint64_t seed = 0;
  /// --replicas
  std::int64_t replicas = 0;
  /// --threads-per-replica
  int threads_per_replica = 0;
  /// --concurrent-replicas
  int concurrent_replicas = 0;
  /// --devices, DeviceConfig::names
  std::vector<std::string> devices{};
  /// --precision: "float32", "bfloat16" or "float16"
  std::string precision = "float32";
  /// --compile: "off", "on" or "max"; empty: as RunConfig decides
  std::string compile{};
  /// --sharding: "off", "optimizer" or "gradients", RunConfig::sharding
  std::string sharding = "off";
  /// --recompute: RunConfig::recompute
  std::string recompute{};
  /// --save-checkpoints-steps and --save-checkpoints-secs, as in CheckpointConfig
  std::optional<std::int64_t> save_checkpoints_steps{};
  std::optional<std::int64_t> save_checkpoints_secs{};
  /// --keep-checkpoint-max, CheckpointConfig::keep_checkpoint_max
  std::int64_t keep_checkpoint_max = 5;
  /// --save-summary-steps, RunConfig::save_summary_steps
  std::int64_t save_summary_steps = 100;
  /// --log-step-count-steps, RunConfig::log_step_count_steps
  std::int64_t log_step_count_steps = 100;
  /// --dry-run, RunConfig::dry_run
  bool dry_run = false;
  ClusterFlags cluster{};
};

/// Adds these flags, --job-dir as a required one, and --verbosity to those of a program. `flags`
/// must live as long as the set. A flag of the program's own takes the place of one from --devices
/// on that has its name.
void add_run_flags(FlagSet& set, RunFlags& flags);

/// The run that they ask for, as the task of a cluster that the environment makes this process.
/// Throws as check_cluster_flags() and RunConfig::from_env() do, and UsageError for two periods of
/// checkpoints.
RunConfig run_config(const RunFlags& flags);

}  // namespace muster
