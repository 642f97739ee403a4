#include "muster/train/engine/run_flags.h"

#include <fmt/ranges.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/flags/flags.h"
#include "muster/train/engine/run_terms.h"

namespace muster {
namespace {

constexpr const char* kPrecisions[] = {"float32", "bfloat16", "float16"};

ComputeType compute_type(const std::string& precision) {
  for (const ComputeType type :
       {ComputeType::kFloat32, ComputeType::kBfloat16, ComputeType::kFloat16}) {
    if (name_of(type) == precision) return type;
  }
  throw UsageError("--precision {}: it is one of {}", precision, fmt::join(kPrecisions, ", "));
}

constexpr const char* kCompileModes[] = {"off", "on", "max"};

std::optional<CompileMode> compile_mode(const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (const CompileMode mode : {CompileMode::kOff, CompileMode::kOn, CompileMode::kMax}) {
    if (name_of(mode) == name) return mode;
  }
  throw UsageError("--compile {}: it is one of {}", name, fmt::join(kCompileModes, ", "));
}

constexpr const char* kShardings[] = {"off", "optimizer", "gradients"};

Sharding sharding_of(const std::string& name) {
  for (const Sharding sharding : {Sharding::kOff, Sharding::kOptimizer, Sharding::kGradients}) {
    if (name_of(sharding) == name) return sharding;
  }
  throw UsageError("--sharding {}: it is one of {}", name, fmt::join(kShardings, ", "));
}

void add_saving_flags(FlagSet& set, RunFlags& flags) {
  set.add_standard("--save-checkpoints-steps", &flags.save_checkpoints_steps,
                   "A checkpoint every so many steps")
      .positive()
      .not_in_hparams();
  set.add_standard("--save-checkpoints-secs", &flags.save_checkpoints_secs,
                   "Seconds between checkpoints; 600 where neither is given")
      .not_negative()
      .not_in_hparams();
  set.add_standard("--keep-checkpoint-max", &flags.keep_checkpoint_max,
                   "Number of checkpoints to keep, the newest; 0: all")
      .not_negative()
      .not_in_hparams();
  set.add_standard("--save-summary-steps", &flags.save_summary_steps,
                   "Steps between summaries; 0: none")
      .not_negative()
      .not_in_hparams();
  set.add_standard("--log-step-count-steps", &flags.log_step_count_steps,
                   "Steps between logs of loss and rate; 0: never")
      .not_negative()
      .not_in_hparams();
}

CheckpointConfig checkpoint_config(const RunFlags& flags) {
  if (flags.save_checkpoints_steps && flags.save_checkpoints_secs) {
    throw UsageError("--save-checkpoints-steps and --save-checkpoints-secs: give one of them");
  }
  CheckpointConfig config{.save_checkpoints_steps = flags.save_checkpoints_steps,
                          .keep_checkpoint_max = flags.keep_checkpoint_max};
  if (flags.save_checkpoints_secs) {
    config.save_checkpoints_secs = std::chrono::seconds(*flags.save_checkpoints_secs);
  }
  return config;
}

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
          "In a cluster with ps: a step does not wait for this many replicas, the last ones")
      .not_negative();
  set.add("--ps-log", &flags.ps_log,
          "In a cluster with ps: each resumes from a log of its own after a kill, and no task "
          "goes back to the last checkpoint");
  set.add("--strategy", &flags.strategy,
          "In a cluster: variables live on the ps tasks (ps), or every task has a copy "
          "(collective); "
          "auto, which is the default: ps where the cluster has some")
      .one_of({"auto", "ps", "collective"});
  set.add("--join-timeout-secs", &flags.join_timeout_secs,
          "In a cluster: seconds that tasks wait for each other")
      .positive();
  set.add("--min-workers", &flags.min_workers,
          "In a cluster: this many workers are enough to begin and needed to continue, and others "
          "may join and leave; 0: the first step waits for all")
      .not_negative();
  set.add("--tls", &flags.tls, "In a cluster: encrypt messages between tasks (TLS 1.3)");
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
  set.add("--job-dir", &flags.job_dir, "Folder of checkpoints, events and exports").required();
  set.add("--seed", &flags.seed, "The same seed gives the same weights");
  set.add("--replicas", &flags.replicas,
          "Replicas: parts of a step, each with a batch of its own; 0: automatic")
      .not_negative();
  set.add("--threads-per-replica", &flags.threads_per_replica,
          "CPU threads per replica; 0: automatic")
      .not_negative();
  set.add("--concurrent-replicas", &flags.concurrent_replicas,
          "Replicas that run at one time; 0: automatic")
      .not_negative();
  set.add_standard("--devices", &flags.devices,
                   "A tower on each: cuda:0,cuda:1 or cpu; by default on every GPU, or on the CPU "
                   "where there is none")
      .separated_by(',');
  set.add_standard("--precision", &flags.precision,
                   "Precision of forward and backward; variables and updates are float32")
      .one_of({kPrecisions[0], kPrecisions[1], kPrecisions[2]});
  set.add_standard("--compile", &flags.compile,
                   "Compile training steps where possible; compile.txt in --job-dir has the result")
      .one_of({kCompileModes[0], kCompileModes[1], kCompileModes[2]});
  set.add_standard("--sharding", &flags.sharding,
                   "In a cluster without ps: what each task holds a part of; optimizer: slots and "
                   "moving averages; gradients: their sums too")
      .one_of({kShardings[0], kShardings[1], kShardings[2]});
  set.add_standard("--recompute", &flags.recompute,
                   "Modules of this name, a regular expression, compute their activations again in "
                   "the backward and keep less until then");
  add_saving_flags(set, flags);
  set.add_standard("--dry-run", &flags.dry_run,
                   "One step, one batch of each evaluation and the exports, in a temporary folder: "
                   "does everything work?")
      .not_in_hparams();
  add_cluster_flags(set, flags.cluster);
  set.add_verbosity();
}

RunConfig run_config(const RunFlags& flags) {
  RunConfig config = RunConfig::from_env(
      {.model_dir = flags.job_dir,
       .save_summary_steps = flags.save_summary_steps,
       .log_step_count_steps = flags.log_step_count_steps,
       .checkpoints = checkpoint_config(flags),
       .reproducibility = {.tf_random_seed = flags.seed,
                           .replicas = flags.replicas,
                           .threads_per_replica = flags.threads_per_replica,
                           .precision = compute_type(flags.precision),
                           .compile = compile_mode(flags.compile)},
       .devices = {.names = flags.devices, .concurrent_replicas = flags.concurrent_replicas}});
  config.cluster = cluster_config(flags.cluster, std::move(config.cluster.task));
  config.sharding = sharding_of(flags.sharding);
  config.recompute = flags.recompute;
  config.dry_run = flags.dry_run;
  if (flags.dry_run && !(config.cluster.task.is_alone() && config.cluster.task.cluster.empty())) {
    throw UsageError(
        "--dry-run: this process is {} of a cluster, and one alone tries a program; leave out the "
        "launcher or unset TF_CONFIG",
        config.cluster.task.task.name());
  }
  if (config.sharding != Sharding::kOff && config.cluster.task.num_ps_replicas > 0) {
    throw UsageError(
        "--sharding={}: the cluster's ps hold a part of everything each; leave out the flag or the "
        "ps",
        flags.sharding);
  }
  return config;
}

}  // namespace muster
