#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/platform/cluster/task_environment.h"
#include "muster/train/engine/strategy_choice.h"

namespace muster {

/// The arithmetic of forward and backward; variables and updates are always float32.
enum class ComputeType {
  kFloat32,
  /// Autocast: products and convolutions in bfloat16, the rest in float32.
  kBfloat16,
  /// Autocast in float16 with a loss scale that adapts: a step with an infinite gradient is
  /// skipped.
  kFloat16,
};

/// Whether training steps are compiled (train/compiler). That is another arithmetic: the bits
/// differ.
enum class CompileMode {
  kOff,
  /// Compile where possible; other steps run operation by operation, and the log says why.
  kOn,
  /// As kOn, until there are kernels to choose from by measuring.
  kMax,
};

/// Which state the tasks of a collective divide, instead of having a copy each. The weights are
/// those of one process either way.
enum class Sharding {
  kOff,
  /// Slots and moving averages of dense variables: each task updates its part of the variables and
  /// gives the others the values (ZeRO-1). Tables by rows are not divided.
  kOptimizer,
  /// That and the summed gradients of dense variables: a task has the sum of its part alone, and
  /// the gradients of its own replicas from their backward until they are sent (ZeRO-2).
  kGradients,
};

/// Where the variables of a process with several devices live.
enum class VariableStrategy {
  /// On the CPU: every device gets the values and gives its gradients each step.
  kCpu,
  /// On the first device, with a copy on each of the others.
  kDevices,
};

/// When checkpoints are saved, and which are kept.
struct CheckpointConfig {
  /// At most one of the two is set; 600 s when neither is and checkpoints are on.
  std::optional<std::int64_t> save_checkpoints_steps{};
  std::optional<std::chrono::seconds> save_checkpoints_secs{};
  /// False: no checkpoints at all.
  bool save_checkpoints = true;
  /// 0 keeps all.
  std::int64_t keep_checkpoint_max = 5;
  double keep_checkpoint_every_n_hours = 10'000;
};

/// Settings that the weights of a run depend on, to the bit, beside the model and its data. All
/// tasks of a cluster must agree on them.
struct ReproducibilityConfig {
  /// Every random number of the run is a function of this: the same seed gives the same weights.
  /// Not set: 0, for a cluster and for one process alike, so that a run can always be reproduced.
  std::optional<std::uint64_t> tf_random_seed{};
  /// R: how many replicas the run has; 0 takes the checkpoint's, else the number of devices of the
  /// cluster.
  std::int64_t replicas = 0;
  /// CPU threads of each replica, which change the bits of some kernels; 0 takes the checkpoint's,
  /// else 1 for R > 1, and as many as the size of the model is worth for R = 1: at most one a
  /// processor, or as OMP_NUM_THREADS says.
  int threads_per_replica = 0;
  ComputeType precision = ComputeType::kFloat32;
  /// Kernels that give the same bits every time. False lets a GPU's libraries choose the fastest
  /// kernels by autotuning.
  bool deterministic = true;
  /// Use muster's CPU kernels instead of libtorch's own where they are faster. Runs of one
  /// process that choose otherwise take turns, step by step.
  bool own_cpu_kernels = true;
  /// Unset: that of the checkpoint, else on for a process alone whose towers are on GPUs, where a
  /// compiled step is faster, and off elsewhere.
  std::optional<CompileMode> compile{};
};

/// Devices of this process's replicas. Not part of the arithmetic among devices of one kind.
struct DeviceConfig {
  /// A tower for each: "cpu", "cuda:0", "cuda:0". Empty: every GPU of the machine, or one CPU where
  /// there is none.
  std::vector<std::string> names{};
  VariableStrategy variable_strategy = VariableStrategy::kDevices;
  /// On GPUs: capture the whole step once and replay it, where its shapes allow.
  bool capture_steps = true;
  /// Each name is a device of its own, with a stream and a copy of the variables, also where two
  /// name the same: to test several GPUs on one. Weights are the same either way.
  bool logical_devices = false;
  /// How many replicas of this process run at the same time; 0: as many as processors allow.
  int concurrent_replicas = 0;
};

/// Encryption of connections between tasks: TLS 1.3 with mutual authentication. The same for all
/// tasks.
struct TlsConfig {
  /// Also MUSTER_TLS=1. Keys are derived from the run's secret, unless files are named.
  bool enabled = false;
  /// PEM, also MUSTER_TLS_CERT, MUSTER_TLS_KEY and MUSTER_TLS_CA: all three or none.
  Path certificate{};
  Path key{};
  Path authority{};
};

/// This process's place in a cluster, and how its tasks train together.
struct ClusterConfig {
  /// From TF_CONFIG: see RunConfig::from_env().
  TaskEnvironment task{};
  /// "auto", "ps", "collective", or a function that makes a strategy.
  StrategyChoice train_distribute{};
  /// All tasks make each step together. False, with ps tasks: every task's gradients are applied as
  /// they come, and weights depend on the tasks' speed.
  bool sync = true;
  /// Without sync: a task waits while its values would be more than this many updates old; 0:
  /// never.
  std::int64_t max_staleness = 0;
  /// With sync and ps tasks: a step does not wait for this many replicas, the last ones; gradients
  /// that come too late are counted and dropped.
  std::int64_t backup_replicas = 0;
  /// With sync: every ps writes steps to a log, from which it continues when it is killed; without
  /// it all tasks go back to the last checkpoint then.
  bool ps_log = false;
  /// How long the chief may take until the first step, and an evaluator looks for a checkpoint.
  std::chrono::seconds session_creation_timeout_secs{7200};
  /// A task that has been silent for this long is lost, and the others continue without it.
  std::chrono::milliseconds peer_timeout{10'000};
  /// How long tasks wait for each other at the start, and for a chief that was lost.
  std::chrono::milliseconds join_timeout{60'000};
  /// This many workers beside the chief are enough to begin, and needed to continue; others, up to
  /// those of the cluster, may come and go meanwhile. 0: the first step waits for all, and the run
  /// goes on with those that are left. Also MUSTER_MIN_WORKERS. The chief's counts.
  std::int64_t min_workers = 0;
  TlsConfig tls{};
  /// Further settings that must be the same in all tasks, by name, such as the batch size, which
  /// only the program knows: "--train-batch-size", "128". A task whose values differ from the
  /// chief's is refused.
  std::map<std::string, std::string> terms{};
  /// Arguments that the chief gives to a ps that asks for them: see arguments_of_chief().
  std::vector<std::string> arguments{};
};

/// Configuration of a run: its folder, checkpoints, devices, replicas. A plain value; Estimator
/// checks it once, with check().
///
///   RunConfig config{.model_dir = "runs/census", .checkpoints = {.save_checkpoints_steps = 500}};
struct RunConfig {
  /// Folder of checkpoints, event files and exports. Empty: Estimator makes a temporary one and
  /// warns.
  Path model_dir{};
  /// Steps between summaries; 0 for none.
  std::int64_t save_summary_steps = 100;
  /// Steps between logs of loss and rate; 0 for never.
  std::int64_t log_step_count_steps = 100;
  CheckpointConfig checkpoints{};
  ReproducibilityConfig reproducibility{};
  DeviceConfig devices{};
  ClusterConfig cluster{};
  /// In a collective on CPUs, whose tasks see one model_dir. One process has nothing to divide.
  Sharding sharding = Sharding::kOff;
  /// Names of modules, as a regular expression, that compute their forward again in the backward
  /// instead of keeping activations until then: Recomputable. The weights are the same. On CPUs.
  /// Empty: none.
  std::string recompute{};
  /// Hyperparameters that TensorBoard's page "hparams" shows of the run beside those that the
  /// estimator knows: names and values of the program's flags, such as "train_batch_size", "128".
  std::map<std::string, std::string> hparams{};
  /// Try everything once: an Estimator works in a temporary folder that is removed with it, with a
  /// copy of the latest checkpoint of model_dir, which it does not touch. It trains one step, and
  /// evaluates and predicts one batch. For a process alone.
  bool dry_run = false;

  /// Reads TF_CONFIG; a process without it is a cluster of one. A model_dir in TF_CONFIG is taken
  /// over.
  static RunConfig from_env();
  /// The same for a configuration whose other fields are set: from_env({.model_dir = "runs/a"}).
  /// Throws InvalidArgument when TF_CONFIG names another model_dir.
  static RunConfig from_env(RunConfig config);

  /// A copy with another folder. Throws InvalidArgument when TF_CONFIG names another one.
  RunConfig with_model_dir(Path folder) const;

  /// Throws InvalidArgument, naming the field, its value and what is allowed.
  void check() const;

  /// "{'_model_dir': 'runs/census', '_tf_random_seed': None, ...}": tf.estimator's fields in its
  /// order, as far as they mean something here, then muster's own.
  std::string to_string() const;
  /// The same with model_dir, the seed, and those fields that differ from RunConfig{}.
  std::string to_short_string() const;

  /// Batches between two values of the global step, to count epochs with: `replicas`, else one for
  /// each tower that is named, or each task that trains. Without sync, those of one task.
  double batches_per_step() const;

  std::uint64_t seed() const { return reproducibility.tf_random_seed.value_or(0); }
  bool is_chief() const { return cluster.task.is_chief; }
};

}  // namespace muster
