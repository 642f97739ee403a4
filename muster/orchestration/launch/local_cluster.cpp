#include "muster/orchestration/launch/local_cluster.h"

#include <fmt/core.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "muster/base/error.h"

namespace muster::launch {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMostTasks = 1000;

void check(const LocalClusterOptions& options) {
  const std::pair<const char*, std::int64_t> counts[] = {
      {"workers", options.workers}, {"ps", options.ps}, {"evaluators", options.evaluators}};
  for (const auto& [name, count] : counts) {
    if (count < 0 || count > kMostTasks) {
      throw InvalidArgument("the number of {} must be from 0 to {}: {}", name, kMostTasks, count);
    }
  }
  if (options.chief != job::kMaster && options.chief != job::kChief) {
    throw InvalidArgument("the first task is called \"master\" or \"chief\", not \"{}\"",
                          options.chief);
  }
  if (options.evaluators > 0 && options.chief == job::kMaster) {
    throw InvalidArgument(
        "an evaluator does not go with a \"master\", which evaluates itself; call it \"chief\"");
  }
}

struct Place {
  std::string host;
  std::string address;
};

// Jobs to places, in the order in which ports are given.
struct Addresses {
  std::vector<Place> chief;
  std::vector<Place> ps;
  std::vector<Place> workers;
};

// ssh's "USER@HOST" as others reach it.
std::string reachable(const std::string& host) {
  const std::string name = host.substr(host.find('@') + 1);
  return name.find(':') == std::string::npos ? name : fmt::format("[{}]", name);
}

Place place_of(const LocalClusterOptions& options, std::size_t turn, std::uint16_t port) {
  if (options.hosts.empty()) return {"", fmt::format("localhost:{}", port)};
  const std::string& host = options.hosts[turn % options.hosts.size()];
  return {host, fmt::format("{}:{}", reachable(host), port)};
}

std::vector<std::string> addresses_of(const std::vector<Place>& places) {
  std::vector<std::string> addresses;
  addresses.reserve(places.size());
  for (const Place& place : places) addresses.push_back(place.address);
  return addresses;
}

Addresses deal(const LocalClusterOptions& options, const std::vector<std::uint16_t>& ports) {
  if (ports.size() != ports_needed(options)) {
    throw Internal("a cluster of {} tasks was given {} ports", ports_needed(options), ports.size());
  }
  Addresses addresses;
  const auto num_ps = static_cast<std::size_t>(options.ps);
  const auto num_workers = static_cast<std::size_t>(options.workers);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const bool is_ps = i > 0 && i <= num_ps;
    // Ps come last, so that those that train are spread over the hosts.
    const std::size_t turn = i == 0 ? 0 : is_ps ? num_workers + i : i - num_ps;
    auto& job = i == 0 ? addresses.chief : is_ps ? addresses.ps : addresses.workers;
    job.push_back(place_of(options, turn, ports[i]));
  }
  return addresses;
}

std::string tf_config(const LocalClusterOptions& options, const Addresses& addresses,
                      const std::optional<TaskSpec>& task) {
  ordered_json cluster = ordered_json::object();
  if (task) {
    cluster[options.chief] = addresses_of(addresses.chief);
    if (!addresses.ps.empty()) cluster[std::string(job::kPs)] = addresses_of(addresses.ps);
    if (!addresses.workers.empty()) {
      cluster[std::string(job::kWorker)] = addresses_of(addresses.workers);
    }
  }
  ordered_json config;
  if (options.job_json) config["job"] = ordered_json::parse(*options.job_json);
  config["cluster"] = cluster;
  config["task"] = ordered_json::object();
  if (task) config["task"] = {{"type", task->type}, {"index", task->index}};
  config["environment"] = "cloud";
  return config.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
}

std::string file_name(const TaskSpec& task, std::size_t count) {
  const bool is_numbered = task.type == job::kWorker || count > 1;
  return is_numbered ? fmt::format("{}{}", task.type, task.index) : task.type;
}

// The next of the GPUs for a task that computes, none for a ps.
std::string gpu_for(const LaunchTask& task, const std::vector<std::string>& gpus,
                    std::size_t& turn) {
  if (task.is_ps() || gpus.empty()) return "";
  return gpus[turn++ % gpus.size()];
}

// Whether two of the tasks that train can have the same GPU.
bool share_gpus(const LocalClusterOptions& options) {
  const auto trainers = static_cast<std::size_t>(1 + options.workers);
  if (trainers == 1) return false;
  return !options.gpus || (!options.gpus->empty() && options.gpus->size() < trainers);
}

// NCCL takes two tasks of one host on one GPU for a mistake, unless each is a host of its own.
void name_hosts(std::vector<LaunchTask>& tasks) {
  constexpr char kVariable[] = "NCCL_HOSTID";
  if (std::getenv(kVariable) != nullptr) return;
  for (LaunchTask& task : tasks) {
    if (!task.is_ps()) task.environment.push_back(fmt::format("{}={}", kVariable, task.name));
  }
}

LaunchTask single_task(const LocalClusterOptions& options) {
  LaunchTask task{{options.chief, 0}, options.chief, "", {}};
  task.environment.push_back("TF_CONFIG=" + tf_config(options, {}, std::nullopt));
  std::size_t turn = 0;
  if (options.gpus) {
    task.environment.push_back("CUDA_VISIBLE_DEVICES=" + gpu_for(task, *options.gpus, turn));
  }
  return task;
}

}  // namespace

bool LaunchTask::is_chief() const { return task.type == job::kMaster || task.type == job::kChief; }

std::size_t ports_needed(const LocalClusterOptions& options) {
  if (options.is_single) return 0;
  check(options);
  return static_cast<std::size_t>(1 + options.ps + options.workers);
}

std::vector<LaunchTask> local_cluster(const LocalClusterOptions& options,
                                      const std::vector<std::uint16_t>& ports) {
  if (options.is_single) return {single_task(options)};
  const Addresses addresses = deal(options, ports);
  std::vector<LaunchTask> tasks;
  const auto add = [&](std::string_view job, const std::vector<Place>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const TaskSpec task{std::string(job), static_cast<std::int64_t>(i)};
      tasks.push_back({task,
                       file_name(task, list.size()),
                       list[i].address,
                       {"TF_CONFIG=" + tf_config(options, addresses, task)},
                       std::nullopt,
                       list[i].host});
    }
  };
  add(job::kPs, addresses.ps);
  add(options.chief, addresses.chief);
  add(job::kWorker, addresses.workers);
  const Place beside_the_chief{addresses.chief.front().host, ""};
  add(job::kEvaluator,
      std::vector<Place>(static_cast<std::size_t>(options.evaluators), beside_the_chief));
  if (share_gpus(options)) name_hosts(tasks);
  std::size_t turn = 0;
  for (LaunchTask& task : tasks) {
    if (!options.gpus) break;
    task.environment.push_back("CUDA_VISIBLE_DEVICES=" + gpu_for(task, *options.gpus, turn));
  }
  return tasks;
}

}  // namespace muster::launch
