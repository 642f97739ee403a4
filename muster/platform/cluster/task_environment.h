#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/platform/cluster/cluster_spec.h"

namespace muster {

/// The jobs that mean something to muster. A cluster may have others.
namespace job {
inline constexpr std::string_view kMaster = "master";
inline constexpr std::string_view kChief = "chief";
inline constexpr std::string_view kWorker = "worker";
inline constexpr std::string_view kPs = "ps";
inline constexpr std::string_view kEvaluator = "evaluator";
}  // namespace job

/// One task of a cluster.
struct TaskSpec {
  std::string type{job::kWorker};
  std::int64_t index = 0;

  /// "worker:1", as log lines and errors spell it.
  std::string name() const;
  bool operator==(const TaskSpec&) const = default;
};

/// Another task, and where it listens.
struct Peer {
  TaskSpec task;
  std::string address;

  bool operator==(const Peer&) const = default;
};

/// Where tasks meet that are told no address but one: "host:port" of a c10d store (MASTER_ADDR and
/// MASTER_PORT). They learn each other's addresses there.
struct Rendezvous {
  std::string address{};
  /// Another process runs the store, such as torchrun's agent: the chief must not start one there.
  bool is_running = false;

  bool operator==(const Rendezvous&) const = default;
};

/// The place of a process in its cluster, as RunConfig shows it. The values are those of a
/// process whose environment says nothing: a cluster of one. parse_tf_config() and
/// read_task_environment() make every other one.
struct TaskEnvironment {
  /// The training cluster. Evaluators are never part of it; empty for one process alone and for an
  /// evaluator.
  ClusterSpec cluster{};
  TaskSpec task{};
  /// Evaluators that TF_CONFIG lists among the cluster's jobs, by index.
  JobTasks evaluators{};

  bool is_chief = true;
  std::int64_t num_ps_replicas = 0;
  /// The chief or master is one of them.
  std::int64_t num_worker_replicas = 1;
  /// Chief 0, then other jobs by name and index, ps last. An evaluator has none.
  std::optional<std::int64_t> global_id_in_cluster = 0;
  /// "grpc://host:port" of this task; empty when it talks to no other task.
  std::string master{};
  /// Master of an evaluator, if TF_CONFIG gives one; else empty.
  std::string evaluation_master{};
  /// The tasks that this one talks to. A worker needs the ps and no other worker, so it starts and
  /// continues without them. Without ps, workers and chief need each other.
  std::vector<Peer> peers{};
  /// Set where the environment names no addresses but this one. Then `cluster`, `peers` and
  /// `master` are empty, and what is known is the task and num_worker_replicas.
  std::optional<Rendezvous> rendezvous{};
  /// Which variables it was read from: "TF_CONFIG", "JOB_NAME", "RANK", "OMPI", "SLURM"; empty if
  /// none says anything.
  std::string source{};

  /// "cloud", "google", or what else TF_CONFIG says.
  std::string environment{};
  /// The number of a tuning trial, as it was given.
  std::optional<std::string> trial{};
  std::optional<std::string> model_dir{};
  /// The maps `service` and `job` of TF_CONFIG, as JSON.
  std::optional<std::string> service_json{};
  std::optional<std::string> job_json{};

  /// Oddities that are no errors: unknown keys, an address given twice, variables that contradict.
  std::vector<std::string> warnings{};

  /// Whether this task listens for others: not alone, not an evaluator, and not where the
  /// environment ("google") starts servers itself.
  bool needs_server() const;
  /// Whether no other task takes part in the training. An evaluator is not alone: it follows
  /// others.
  bool is_alone() const;
  bool is_evaluator() const { return task.type == job::kEvaluator; }
};

}  // namespace muster
