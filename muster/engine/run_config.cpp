#include "muster/engine/run_config.h"

#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/cluster/process_environment.h"

namespace muster {
namespace {

void require(bool holds, std::string_view field, std::string_view rule, double value) {
  if (!holds) throw InvalidArgument("RunConfig: {} must be {}: {:g}", field, rule, value);
}

template <typename T>
void take(const std::optional<T>& change, T& field) {
  if (change) field = *change;
}

std::string python_bool(bool value) { return value ? "True" : "False"; }
std::string in_quotes(std::string_view text) { return fmt::format("'{}'", text); }

template <typename T>
std::string or_none(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "None";
}

std::string_view name_of_type(ComputeType type) {
  switch (type) {
    case ComputeType::kFloat32:
      return "float32";
    case ComputeType::kBfloat16:
      return "bfloat16";
    case ComputeType::kFloat16:
      return "float16";
  }
  return "?";
}

using ConfigFields = std::vector<std::pair<std::string_view, std::string>>;

// The seconds between checkpoints, as tf.estimator has them where nothing is said.
std::string checkpoint_seconds(const RunConfig& config) {
  if (config.save_checkpoints_secs) return fmt::format("{}", config.save_checkpoints_secs->count());
  return config.save_checkpoints_steps || !config.save_checkpoints ? "None" : "600";
}

ConfigFields fields_of_tf_estimator(const RunConfig& config) {
  const TaskEnvironment& task = config.task;
  return {
      {"_model_dir", in_quotes(config.model_dir.string())},
      {"_tf_random_seed", or_none(config.tf_random_seed)},
      {"_save_summary_steps", fmt::format("{}", config.save_summary_steps)},
      {"_save_checkpoints_steps", or_none(config.save_checkpoints_steps)},
      {"_save_checkpoints_secs", checkpoint_seconds(config)},
      {"_keep_checkpoint_max", fmt::format("{}", config.keep_checkpoint_max)},
      {"_keep_checkpoint_every_n_hours", fmt::format("{:g}", config.keep_checkpoint_every_n_hours)},
      {"_log_step_count_steps", fmt::format("{}", config.log_step_count_steps)},
      {"_session_creation_timeout_secs",
       fmt::format("{}", config.session_creation_timeout_secs.count())},
      {"_service", task.service_json.value_or("None")},
      {"_cluster_spec", task.cluster.to_string()},
      {"_task_type", in_quotes(task.task.type)},
      {"_task_id", fmt::format("{}", task.task.index)},
      {"_global_id_in_cluster", or_none(task.global_id_in_cluster)},
      {"_master", in_quotes(task.master)},
      {"_evaluation_master", in_quotes(task.evaluation_master)},
      {"_is_chief", python_bool(task.is_chief)},
      {"_num_ps_replicas", fmt::format("{}", task.num_ps_replicas)},
      {"_num_worker_replicas", fmt::format("{}", task.num_worker_replicas)},
      {"_environment", in_quotes(task.environment)}};
}

ConfigFields fields_of_muster(const RunConfig& config) {
  std::vector<std::string> devices;
  for (const auto& device : config.devices) devices.push_back(in_quotes(device));
  return {{"_replicas", fmt::format("{}", config.replicas)},
          {"_threads_per_replica", fmt::format("{}", config.threads_per_replica)},
          {"_devices", fmt::format("[{}]", fmt::join(devices, ", "))},
          {"_precision", in_quotes(name_of_type(config.precision))},
          {"_own_cpu_kernels", python_bool(config.own_cpu_kernels)},
          {"_deterministic", python_bool(config.deterministic)},
          {"_capture_steps", python_bool(config.capture_steps)},
          {"_sync", python_bool(config.sync)}};
}

// "runs/a" and "runs/./a/" are one.
bool is_same_folder(const Path& a, const Path& b) {
  const auto plain = [](const Path& path) {
    const Path normal = path.lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path();
  };
  return plain(a) == plain(b);
}

}  // namespace

std::string RunConfig::to_string() const {
  ConfigFields fields = fields_of_tf_estimator(*this);
  for (auto& field : fields_of_muster(*this)) fields.push_back(std::move(field));
  std::vector<std::string> parts;
  for (const auto& [name, value] : fields) parts.push_back(fmt::format("'{}': {}", name, value));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

RunConfig RunConfig::from_env() {
  RunConfig config;
  config.task = task_environment_from_env();
  if (config.task.model_dir) config.model_dir = *config.task.model_dir;
  return config;
}

RunConfig RunConfig::with_model_dir(Path folder) const {
  if (folder.empty()) {
    throw InvalidArgument(
        "RunConfig: model_dir must not be empty; leave it out for a temporary folder");
  }
  return replace({.model_dir = std::move(folder)});
}

RunConfig RunConfig::replace(const RunConfigChanges& changes) const {
  if (changes.save_checkpoints_steps && changes.save_checkpoints_secs) {
    throw InvalidArgument(
        "RunConfig: at most one of save_checkpoints_steps and save_checkpoints_secs may be set");
  }
  RunConfig config = *this;
  take(changes.model_dir, config.model_dir);
  take(changes.save_summary_steps, config.save_summary_steps);
  take(changes.keep_checkpoint_max, config.keep_checkpoint_max);
  take(changes.keep_checkpoint_every_n_hours, config.keep_checkpoint_every_n_hours);
  take(changes.log_step_count_steps, config.log_step_count_steps);
  take(changes.session_creation_timeout_secs, config.session_creation_timeout_secs);
  take(changes.replicas, config.replicas);
  take(changes.threads_per_replica, config.threads_per_replica);
  take(changes.concurrent_replicas, config.concurrent_replicas);
  take(changes.precision, config.precision);
  take(changes.devices, config.devices);
  take(changes.variable_strategy, config.variable_strategy);
  take(changes.deterministic, config.deterministic);
  take(changes.capture_steps, config.capture_steps);
  take(changes.sync, config.sync);
  take(changes.max_staleness, config.max_staleness);
  take(changes.backup_replicas, config.backup_replicas);
  take(changes.ps_log, config.ps_log);
  if (changes.tf_random_seed) config.tf_random_seed = changes.tf_random_seed;
  if (changes.save_checkpoints_steps) {
    config.save_checkpoints_steps = changes.save_checkpoints_steps;
    config.save_checkpoints_secs.reset();
  }
  if (changes.save_checkpoints_secs) {
    config.save_checkpoints_secs = changes.save_checkpoints_secs;
    config.save_checkpoints_steps.reset();
  }
  config.check();
  return config;
}

void RunConfig::check() const {
  if (task.model_dir && !model_dir.empty() && !is_same_folder(model_dir, Path(*task.model_dir))) {
    throw InvalidArgument(
        "RunConfig: model_dir is {}, but TF_CONFIG says {}; leave one of them out",
        model_dir.string(), *task.model_dir);
  }
  if (save_checkpoints_steps && save_checkpoints_secs) {
    throw InvalidArgument(
        "RunConfig: at most one of save_checkpoints_steps and save_checkpoints_secs may be set");
  }
  const auto number = [](auto value) { return static_cast<double>(value); };
  require(save_summary_steps >= 0, "save_summary_steps", "0 or more", number(save_summary_steps));
  if (save_checkpoints_steps) {
    require(*save_checkpoints_steps > 0, "save_checkpoints_steps", "positive",
            number(*save_checkpoints_steps));
  }
  if (save_checkpoints_secs) {
    require(save_checkpoints_secs->count() >= 0, "save_checkpoints_secs", "0 or more",
            number(save_checkpoints_secs->count()));
  }
  require(keep_checkpoint_max >= 0, "keep_checkpoint_max", "0 (all) or more",
          number(keep_checkpoint_max));
  require(keep_checkpoint_every_n_hours > 0, "keep_checkpoint_every_n_hours", "positive",
          keep_checkpoint_every_n_hours);
  require(log_step_count_steps >= 0, "log_step_count_steps", "0 (never) or more",
          number(log_step_count_steps));
  require(session_creation_timeout_secs.count() > 0, "session_creation_timeout_secs", "positive",
          number(session_creation_timeout_secs.count()));
  require(peer_timeout.count() > 0, "peer_timeout", "positive", number(peer_timeout.count()));
  require(join_timeout.count() > 0, "join_timeout", "positive", number(join_timeout.count()));
  require(max_staleness >= 0, "max_staleness", "0 (no bound) or more", number(max_staleness));
  require(backup_replicas >= 0, "backup_replicas", "0 or more", number(backup_replicas));
  require(replicas >= 0, "replicas", "0 (decide) or more", number(replicas));
  require(threads_per_replica >= 0, "threads_per_replica", "0 (decide) or more",
          number(threads_per_replica));
  require(concurrent_replicas >= 0, "concurrent_replicas", "0 (decide) or more",
          number(concurrent_replicas));
}

}  // namespace muster
