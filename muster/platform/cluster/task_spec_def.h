#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/platform/cluster/process_environment.h"
#include "muster/platform/cluster/task_environment.h"

namespace muster {

struct TaskSpecDefOptions {
  /// "master", "chief" (another name of it), "worker", "ps" or "evaluator".
  std::string type{job::kMaster};
  std::int64_t index = 0;
  std::optional<std::string> trial{};
  std::vector<std::string> ps_hosts{};
  std::vector<std::string> worker_hosts{};
  std::optional<std::string> master{};
};

/// "a:1,b:2" as a list; blanks around the names and empty names are dropped.
std::vector<std::string> split_hosts(std::string_view hosts);

/// TensorLayer's view of a task, for training loops written by hand. A value.
///
/// Without hosts of other tasks the process is alone and its own master. Without a master, worker 0
/// acts as one. With a master, workers are counted after it. Other than TensorLayer's: workers
/// without ps form a cluster too, instead of each taking itself for the master.
class TaskSpecDef {
 public:
  /// Throws InvalidArgument for an unknown type, a negative index, or one that has no host.
  explicit TaskSpecDef(TaskSpecDefOptions options);

  const std::string& type() const { return options_.type; }
  std::int64_t index() const { return options_.index; }
  const std::optional<std::string>& trial() const { return options_.trial; }
  const std::vector<std::string>& ps_hosts() const { return options_.ps_hosts; }
  const std::vector<std::string>& worker_hosts() const { return options_.worker_hosts; }
  const std::optional<std::string>& master_host() const { return options_.master; }

  /// Whether there are other tasks.
  bool is_distributed() const;
  /// Those that train: the workers, and the master if there is one; 1 alone.
  std::int64_t num_workers() const;
  std::int64_t num_ps() const;
  /// This task's part of the data, of num_workers().
  std::int64_t shard_index() const;

  bool is_ps() const { return options_.type == job::kPs; }
  bool is_worker() const { return options_.type == job::kWorker; }
  bool is_master() const;
  /// An evaluator, or the worker that use_last_worker_as_evaluator() took out of the cluster.
  bool is_evaluator() const;

  /// "grpc://host:port" of this task; nothing when alone or an evaluator.
  std::optional<std::string> target() const;

  /// The same task in a cluster without the last worker, which evaluates instead: called on every
  /// task, it is_evaluator() on that one. Throws FailedPrecondition if no task would be left to
  /// train.
  TaskSpecDef use_last_worker_as_evaluator() const;
  /// The name it had up to TensorLayer 1.7.4.
  TaskSpecDef user_last_worker_as_evaluator() const { return use_last_worker_as_evaluator(); }

  /// For RunConfig::task. A worker that acts as master becomes the chief, and the workers after it
  /// count from 0. A master becomes a chief where a worker evaluates in its place.
  TaskEnvironment to_task_environment() const;

 private:
  std::optional<std::string> own_address() const;

  TaskSpecDefOptions options_;
  bool last_worker_evaluates_ = false;
};

/// TensorLayer's TaskSpec(): from TF_CONFIG, else from JOB_NAME, TASK_INDEX, PS_HOSTS, WORKER_HOSTS
/// and MASTER_HOST; nothing if neither is set. Throws UsageError, naming the variable.
std::optional<TaskSpecDef> create_task_spec_def(const EnvironmentVariables& variables);
/// The same from this process's environment.
std::optional<TaskSpecDef> create_task_spec_def();

/// From JOB_NAME, TASK_INDEX, PS_HOSTS, WORKER_HOSTS and MASTER_HOST alone. Throws UsageError.
TaskSpecDef task_spec_def_of_hosts(const EnvironmentVariables& variables);

}  // namespace muster
