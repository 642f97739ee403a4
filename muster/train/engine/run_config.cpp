#include "muster/train/engine/run_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/platform/cluster/process_environment.h"
#include "muster/train/engine/run_terms.h"

namespace muster {
namespace {

void require(bool holds, std::string_view field, std::string_view rule, double value) {
  if (!holds) throw InvalidArgument("RunConfig: {} must be {}: {:g}", field, rule, value);
}

std::string python_bool(bool value) { return value ? "True" : "False"; }
std::string in_quotes(std::string_view text) { return fmt::format("'{}'", text); }

template <typename T>
std::string or_none(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "None";
}

using ConfigFields = std::vector<std::pair<std::string_view, std::string>>;

// The seconds between checkpoints, as tf.estimator has them where nothing is said.
std::string checkpoint_seconds(const RunConfig& config) {
  if (config.checkpoints.save_checkpoints_secs)
    return fmt::format("{}", config.checkpoints.save_checkpoints_secs->count());
  return config.checkpoints.save_checkpoints_steps || !config.checkpoints.save_checkpoints ? "None"
                                                                                           : "600";
}

ConfigFields fields_of_tf_estimator(const RunConfig& config) {
  const TaskEnvironment& task = config.cluster.task;
  return {{"_model_dir", in_quotes(config.model_dir.string())},
          {"_tf_random_seed", or_none(config.reproducibility.tf_random_seed)},
          {"_save_summary_steps", fmt::format("{}", config.save_summary_steps)},
          {"_save_checkpoints_steps", or_none(config.checkpoints.save_checkpoints_steps)},
          {"_save_checkpoints_secs", checkpoint_seconds(config)},
          {"_keep_checkpoint_max", fmt::format("{}", config.checkpoints.keep_checkpoint_max)},
          {"_keep_checkpoint_every_n_hours",
           fmt::format("{:g}", config.checkpoints.keep_checkpoint_every_n_hours)},
          {"_log_step_count_steps", fmt::format("{}", config.log_step_count_steps)},
          {"_session_creation_timeout_secs",
           fmt::format("{}", config.cluster.session_creation_timeout_secs.count())},
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
  for (const auto& device : config.devices.names) devices.push_back(in_quotes(device));
  return {{"_replicas", fmt::format("{}", config.reproducibility.replicas)},
          {"_threads_per_replica", fmt::format("{}", config.reproducibility.threads_per_replica)},
          {"_devices", fmt::format("[{}]", fmt::join(devices, ", "))},
          {"_precision", in_quotes(name_of(config.reproducibility.precision))},
          {"_compile",
           in_quotes(config.reproducibility.compile ? name_of(*config.reproducibility.compile)
                                                    : "default")},
          {"_own_cpu_kernels", python_bool(config.reproducibility.own_cpu_kernels)},
          {"_deterministic", python_bool(config.reproducibility.deterministic)},
          {"_capture_steps", python_bool(config.devices.capture_steps)},
          {"_sync", python_bool(config.cluster.sync)},
          {"_sharding", in_quotes(name_of(config.sharding))}};
}

ConfigFields fields_of(const RunConfig& config) {
  ConfigFields fields = fields_of_tf_estimator(config);
  for (auto& field : fields_of_muster(config)) fields.push_back(std::move(field));
  return fields;
}

std::string as_dictionary(const ConfigFields& fields) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : fields) parts.push_back(fmt::format("'{}': {}", name, value));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
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

std::string RunConfig::to_string() const { return as_dictionary(fields_of(*this)); }

std::string RunConfig::to_short_string() const {
  const ConfigFields usual = fields_of(RunConfig{});
  ConfigFields fields = fields_of(*this);
  std::erase_if(fields, [&](const auto& field) {
    const bool is_always_told = field.first == "_model_dir" || field.first == "_tf_random_seed";
    return !is_always_told && std::ranges::find(usual, field) != usual.end();
  });
  return as_dictionary(fields);
}

RunConfig RunConfig::from_env() { return from_env({}); }

RunConfig RunConfig::from_env(RunConfig config) {
  config.cluster.task = task_environment_from_env();
  if (const auto& folder = config.cluster.task.model_dir; folder && config.model_dir.empty()) {
    config.model_dir = *folder;
  }
  config.check();
  return config;
}

RunConfig RunConfig::with_model_dir(Path folder) const {
  if (folder.empty()) {
    throw InvalidArgument(
        "RunConfig: model_dir must not be empty; leave it out for a temporary folder");
  }
  RunConfig config = *this;
  config.model_dir = std::move(folder);
  config.check();
  return config;
}

double RunConfig::batches_per_step() const {
  const auto tasks =
      static_cast<double>(std::max<std::int64_t>(1, cluster.task.num_worker_replicas));
  const auto towers = static_cast<double>(std::max<std::size_t>(1, devices.names.size()));
  const double batches =
      reproducibility.replicas > 0 ? static_cast<double>(reproducibility.replicas) : tasks * towers;
  return cluster.sync ? batches : std::max(1.0, batches / tasks);
}

void RunConfig::check() const {
  if (cluster.task.model_dir && !model_dir.empty() &&
      !is_same_folder(model_dir, Path(*cluster.task.model_dir))) {
    throw InvalidArgument(
        "RunConfig: model_dir is {}, but TF_CONFIG says {}; leave one of them out",
        model_dir.string(), *cluster.task.model_dir);
  }
  if (sharding != Sharding::kOff && !checkpoints.save_checkpoints) {
    throw InvalidArgument(
        "RunConfig: sharding {} needs checkpoints, from which the run goes on when a task is lost "
        "with what it alone holds; leave save_checkpoints true",
        name_of(sharding));
  }
  if (checkpoints.save_checkpoints_steps && checkpoints.save_checkpoints_secs) {
    throw InvalidArgument(
        "RunConfig: at most one of save_checkpoints_steps and save_checkpoints_secs may be set");
  }
  const auto number = [](auto value) { return static_cast<double>(value); };
  require(save_summary_steps >= 0, "save_summary_steps", "0 or more", number(save_summary_steps));
  if (checkpoints.save_checkpoints_steps) {
    require(*checkpoints.save_checkpoints_steps > 0, "save_checkpoints_steps", "positive",
            number(*checkpoints.save_checkpoints_steps));
  }
  if (checkpoints.save_checkpoints_secs) {
    require(checkpoints.save_checkpoints_secs->count() >= 0, "save_checkpoints_secs", "0 or more",
            number(checkpoints.save_checkpoints_secs->count()));
  }
  require(checkpoints.keep_checkpoint_max >= 0, "keep_checkpoint_max", "0 (all) or more",
          number(checkpoints.keep_checkpoint_max));
  require(checkpoints.keep_checkpoint_every_n_hours > 0, "keep_checkpoint_every_n_hours",
          "positive", checkpoints.keep_checkpoint_every_n_hours);
  require(log_step_count_steps >= 0, "log_step_count_steps", "0 (never) or more",
          number(log_step_count_steps));
  require(cluster.session_creation_timeout_secs.count() > 0, "session_creation_timeout_secs",
          "positive", number(cluster.session_creation_timeout_secs.count()));
  require(cluster.peer_timeout.count() > 0, "peer_timeout", "positive",
          number(cluster.peer_timeout.count()));
  require(cluster.join_timeout.count() > 0, "join_timeout", "positive",
          number(cluster.join_timeout.count()));
  require(cluster.min_workers >= 0, "min_workers", "0 (all) or more", number(cluster.min_workers));
  require(cluster.max_staleness >= 0, "max_staleness", "0 (no bound) or more",
          number(cluster.max_staleness));
  require(cluster.backup_replicas >= 0, "backup_replicas", "0 or more",
          number(cluster.backup_replicas));
  require(reproducibility.replicas >= 0, "replicas", "0 (decide) or more",
          number(reproducibility.replicas));
  require(reproducibility.threads_per_replica >= 0, "threads_per_replica", "0 (decide) or more",
          number(reproducibility.threads_per_replica));
  require(devices.concurrent_replicas >= 0, "concurrent_replicas", "0 (decide) or more",
          number(devices.concurrent_replicas));
}

}  // namespace muster
