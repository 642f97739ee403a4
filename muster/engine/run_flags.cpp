#include "muster/engine/run_flags.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/flags/flags.h"

namespace muster {
namespace {

// The first flag that is for ps tasks alone.
const char* flag_for_ps(const ClusterFlags& flags) {
  if (flags.strategy == "ps") return "--strategy=ps";
  if (!flags.sync) return "--sync=false";
  if (flags.ps_log) return "--ps-log";
  if (flags.backup_replicas > 0) return "--backup-replicas";
  return nullptr;
}

}  // namespace

void add_cluster_flags(FlagSet& set, ClusterFlags& flags) {
  set.add("--sync", &flags.sync,
          "In a cluster: all tasks make each step together (the default); =false: ps apply the "
          "gradients of each as they come");
  set.add(
         "--max-staleness", &flags.max_staleness,
         "With --sync=false: tasks wait when the values of one would be more updates old; 0: never")
      .not_negative();
  set.add("--backup-replicas", &flags.backup_replicas,
          "In a cluster with ps: steps are made without the last so many replicas")
      .not_negative();
  set.add("--ps-log", &flags.ps_log,
          "In a cluster with ps: they go on from a log when they are killed, and nobody goes "
          "back to the last checkpoint");
  set.add("--strategy", &flags.strategy,
          "In a cluster: variables live on the ps tasks (ps), or every task has a copy "
          "(collective); "
          "auto, which is the default: ps where the cluster has some")
      .one_of({"auto", "ps", "collective"});
  set.add("--join-timeout-secs", &flags.join_timeout_secs,
          "In a cluster: how long tasks wait for each other before they give up")
      .positive();
  set.add("--min-workers", &flags.min_workers,
          "In a cluster: so many workers are enough to begin and needed to go on, and others may "
          "come and go; 0: the first step waits for all")
      .not_negative();
  set.add("--tls", &flags.tls, "In a cluster: encrypt what tasks send each other (TLS 1.3)");
}

void check_cluster_flags(const ClusterFlags& flags, const TaskEnvironment& task) {
  if (flags.strategy == "collective" && task.num_ps_replicas > 0) {
    throw UsageError(
        "--strategy=collective: every task has a copy of the variables, so the cluster's {} ps "
        "would have "
        "nothing to do; leave out the flag or the ps",
        task.num_ps_replicas);
  }
  if (flags.max_staleness > 0 && flags.sync) {
    throw UsageError(
        "--max-staleness: with --sync all tasks have the values of the same step; leave it out, or "
        "give --sync=false");
  }
  // An evaluator is told of no other task.
  if (task.num_ps_replicas > 0 || task.is_evaluator()) return;
  if (const char* flag = flag_for_ps(flags)) {
    throw UsageError(
        "{} is for ps tasks, which hold the variables, and there are none; leave out the flag, or "
        "start some: muster launch --ps 1 -- ...",
        flag);
  }
}

ClusterConfig cluster_config(const ClusterFlags& flags, TaskEnvironment task) {
  check_cluster_flags(flags, task);
  return {.task = std::move(task),
          .train_distribute = flags.strategy,
          .sync = flags.sync,
          .max_staleness = flags.max_staleness,
          .backup_replicas = flags.backup_replicas,
          .ps_log = flags.ps_log,
          .join_timeout = std::chrono::seconds(flags.join_timeout_secs),
          .min_workers = flags.min_workers,
          .tls = {.enabled = flags.tls}};
}

void add_run_flags(FlagSet& set, RunFlags& flags) {
  set.add("--job-dir", &flags.job_dir, "Checkpoints, events and exports go here").required();
  set.add("--seed", &flags.seed, "The same seed gives the same weights");
  set.add("--replicas", &flags.replicas, "Parts of a step, each with a batch of its own; 0: decide")
      .not_negative();
  set.add("--threads-per-replica", &flags.threads_per_replica, "0: decide").not_negative();
  set.add("--concurrent-replicas", &flags.concurrent_replicas, "How many run at a time; 0: decide")
      .not_negative();
  add_cluster_flags(set, flags.cluster);
  set.add_verbosity();
}

RunConfig run_config(const RunFlags& flags) {
  RunConfig config =
      RunConfig::from_env({.model_dir = flags.job_dir,
                           .reproducibility = {.tf_random_seed = flags.seed,
                                               .replicas = flags.replicas,
                                               .threads_per_replica = flags.threads_per_replica},
                           .devices = {.concurrent_replicas = flags.concurrent_replicas}});
  config.cluster = cluster_config(flags.cluster, std::move(config.cluster.task));
  return config;
}

}  // namespace muster
