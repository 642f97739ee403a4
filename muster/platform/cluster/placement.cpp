#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/platform/cluster/placement_internal.h"

namespace muster::internal {
namespace {

constexpr std::size_t kMaxClusterBytes = 2000;

template <typename... Args>
[[noreturn]] void fail(std::string_view source, fmt::format_string<Args...> format,
                       Args&&... args) {
  throw UsageError("{}: {}", source, fmt::format(format, std::forward<Args>(args)...));
}

std::string shown(const ClusterSpec& cluster) {
  return shortened(cluster.to_string(), kMaxClusterBytes);
}

// An evaluator listed beside the others would make them wait for it: it is taken out.
void take_out_evaluators(TaskEnvironment& environment) {
  if (!environment.cluster.has_job(job::kEvaluator)) return;
  ClusterSpec::Jobs jobs = environment.cluster.jobs();
  const auto evaluators = jobs.find(job::kEvaluator);
  environment.evaluators = std::move(evaluators->second);
  jobs.erase(evaluators);
  environment.cluster = ClusterSpec(std::move(jobs));
}

std::string_view chief_job(const ClusterSpec& cluster) {
  return cluster.has_job(job::kMaster) ? job::kMaster : job::kChief;
}

void check_one_chief(const ClusterSpec& cluster, std::string_view source) {
  if (cluster.has_job(job::kMaster) && cluster.has_job(job::kChief)) {
    fail(source,
         "cluster has both \"master\" and \"chief\"; they are two names of one role, keep one");
  }
  const std::string_view chief = chief_job(cluster);
  const std::int64_t count = cluster.count(chief);
  if (count == 0) {
    fail(source, "cluster must have one \"chief\" (or \"master\") task, but has none: {}",
         shown(cluster));
  }
  if (count > 1) {
    fail(source, "cluster must have only one \"{}\" task, but has {}: {}", chief, count,
         shown(cluster));
  }
}

void warn_of_shared_addresses(TaskEnvironment& environment, std::string_view source) {
  std::map<std::string, std::string> owners;
  for (const auto& [job, tasks] : environment.cluster.jobs()) {
    for (const auto& [index, address] : tasks) {
      const std::string name = TaskSpec{job, index}.name();
      const auto [owner, first] = owners.emplace(address, name);
      if (first) continue;
      environment.warnings.push_back(fmt::format("{}: {} and {} have the same address {}", source,
                                                 owner->second, name, address));
    }
  }
}

void check_task_is_listed(const ClusterSpec& cluster, const TaskSpec& task,
                          std::string_view source) {
  const std::string hint =
      fmt::format("these values come from the environment variable {} of this process", source);
  if (!cluster.has_job(task.type)) {
    fail(source, "task.type {} is not a job of the cluster {}; {}", in_quotes(task.type),
         shown(cluster), hint);
  }
  if (!cluster.address(task.type, task.index)) {
    fail(source, "task.index {} is not an index of the job \"{}\" in the cluster {}; {}",
         task.index, task.type, shown(cluster), hint);
  }
}

std::int64_t global_id(const ClusterSpec& cluster, const TaskSpec& task, std::string_view chief) {
  if (task.type == chief) return task.index;
  std::int64_t id = cluster.index_end(chief);
  for (const auto& [job, tasks] : cluster.jobs()) {
    if (job == chief || job == job::kPs) continue;
    if (job == task.type) return id + task.index;
    id += cluster.index_end(job);
  }
  return id + task.index;  // Only ps is left.
}

bool trains(std::string_view job) {
  return job == job::kChief || job == job::kMaster || job == job::kWorker;
}

// Parameters live on the ps where there is one: then no task needs another worker.
bool talks_to(const ClusterSpec& cluster, std::string_view own, std::string_view other) {
  if (own == job::kPs) return other == job::kPs || trains(other);
  if (!trains(own)) return true;
  return cluster.has_job(job::kPs) ? other == job::kPs : trains(other);
}

std::vector<Peer> peers_of(const ClusterSpec& cluster, const TaskSpec& task) {
  std::vector<Peer> peers;
  for (const auto& [job, tasks] : cluster.jobs()) {
    if (!talks_to(cluster, task.type, job)) continue;
    for (const auto& [index, address] : tasks) {
      const TaskSpec other{job, index};
      if (other != task) peers.push_back({other, address});
    }
  }
  return peers;
}

void derive_in_cluster(TaskEnvironment& environment) {
  const ClusterSpec& cluster = environment.cluster;
  const TaskSpec& task = environment.task;
  const std::string_view chief = chief_job(cluster);
  environment.is_chief = task.type == chief;
  environment.num_ps_replicas = cluster.count(job::kPs);
  environment.num_worker_replicas = cluster.count(job::kWorker) + cluster.count(chief);
  environment.global_id_in_cluster = global_id(cluster, task, chief);
  if (cluster.count() > 1) {
    environment.master = "grpc://" + *cluster.address(task.type, task.index);
  }
  environment.peers = peers_of(cluster, task);
}

// An evaluator follows the checkpoints and talks to no other task.
void derive_evaluator(TaskEnvironment& environment, std::string_view source) {
  if (environment.cluster.has_job(job::kMaster)) {
    fail(source,
         "task.type \"evaluator\" does not go with a \"master\", which evaluates itself; name it "
         "\"chief\" in the cluster to evaluate elsewhere");
  }
  environment.cluster = {};
  environment.is_chief = false;
  environment.num_worker_replicas = 0;
  environment.global_id_in_cluster = std::nullopt;
}

}  // namespace

std::string shortened(std::string text, std::size_t most_bytes) {
  return text.size() <= most_bytes ? text : text.substr(0, most_bytes) + "...";
}

std::string in_quotes(std::string_view text) {
  using nlohmann::json;
  return shortened(json(text).dump(-1, ' ', true, json::error_handler_t::replace));
}

void settle_cluster(TaskEnvironment& environment, std::string_view source) {
  take_out_evaluators(environment);
  check_one_chief(environment.cluster, source);
  warn_of_shared_addresses(environment, source);
}

void settle_task(TaskEnvironment& environment, std::string_view source) {
  if (environment.is_evaluator()) return derive_evaluator(environment, source);
  check_task_is_listed(environment.cluster, environment.task, source);
  derive_in_cluster(environment);
}

}  // namespace muster::internal
