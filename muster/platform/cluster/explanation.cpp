#include "muster/platform/cluster/explanation.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace muster {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string role_of(const TaskEnvironment& environment) {
  const std::string& type = environment.task.type;
  if (environment.is_evaluator())
    return "follows the checkpoints and evaluates them; trains nothing";
  if (environment.is_alone()) return "alone: trains, checkpoints, evaluates and exports";
  if (type == job::kPs) return "holds variables; ends when the run is done";
  if (type == job::kMaster) {
    return "the chief: initialises, trains, checkpoints, summarises; evaluates and exports too";
  }
  if (environment.is_chief) return "the chief: initialises, trains, checkpoints, summarises";
  if (type == job::kWorker) return "trains";
  return "no role that muster knows";
}

// Sources that were read, and those that were set and were not.
std::string sources_text(const EnvironmentVariables& variables,
                         const TaskEnvironment& environment) {
  std::string text;
  for (const EnvironmentForm& form : environment_forms(variables)) {
    const bool is_read = form.source == environment.source;
    const std::string_view why = is_read              ? ""
                                 : form.means_a_place ? " (an earlier form decides)"
                                                      : " (not enough to mean a place)";
    text +=
        fmt::format("{:<10} {}{}\n", is_read ? "read" : "not read", joined(form.variables), why);
  }
  return text.empty() ? "read       nothing: no variable says anything about a cluster\n" : text;
}

struct Row {
  std::string task;
  std::string address;
  std::string notes;
};

std::vector<Row> rows_of(const TaskEnvironment& environment) {
  std::vector<Row> rows;
  for (const auto& [job, tasks] : environment.cluster.jobs()) {
    for (const auto& [index, address] : tasks) {
      const TaskSpec task{job, index};
      const bool is_peer = std::any_of(environment.peers.begin(), environment.peers.end(),
                                       [&](const Peer& peer) { return peer.task == task; });
      rows.push_back({task.name(), address,
                      task == environment.task ? "this task"
                      : is_peer                ? "peer"
                                               : "not talked to"});
    }
  }
  for (const auto& [index, address] : environment.evaluators) {
    rows.push_back(
        {TaskSpec{std::string(job::kEvaluator), index}.name(), address, "not part of the cluster"});
  }
  return rows;
}

std::string table(const std::vector<Row>& rows) {
  if (rows.empty()) return "";
  std::size_t task_width = std::string_view("task").size();
  std::size_t address_width = std::string_view("address").size();
  for (const Row& row : rows) {
    task_width = std::max(task_width, row.task.size());
    address_width = std::max(address_width, row.address.size());
  }
  std::string text =
      fmt::format("\n{:<{}}  {:<{}}\n", "task", task_width, "address", address_width);
  while (text[text.size() - 2] == ' ') text.erase(text.size() - 2, 1);
  for (const Row& row : rows) {
    text += fmt::format("{:<{}}  {:<{}}  {}\n", row.task, task_width, row.address, address_width,
                        row.notes);
  }
  return text + "\n";
}

std::string peers_text(const TaskEnvironment& environment) {
  if (environment.rendezvous) {
    return fmt::format(
        "found through the store at {}, {}", environment.rendezvous->address,
        environment.rendezvous->is_running ? "which the launcher runs" : "which the chief starts");
  }
  std::vector<std::string> names;
  for (const Peer& peer : environment.peers) {
    names.push_back(fmt::format("{} at {}", peer.task.name(), peer.address));
  }
  return names.empty() ? "none" : joined(names);
}

std::string chief_text(const TaskEnvironment& environment) {
  if (environment.is_chief) return environment.task.name() + " (this task)";
  for (const auto job : {job::kMaster, job::kChief}) {
    if (const auto address = environment.cluster.address(job, 0)) {
      return fmt::format("{}:0 at {}", job, *address);
    }
  }
  return environment.rendezvous ? "chief:0 (rank 0)" : "not known to this task";
}

std::string strategy_reason(const TaskEnvironment& environment) {
  if (environment.num_ps_replicas > 0) return "the cluster has ps";
  if (environment.num_worker_replicas > 1) return "several workers and no ps";
  return "towers if it has several devices";
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("localhost:") ||
         address.starts_with("[::1]");
}

// Warnings of settings that are legal and yet cannot work, or not on every host.
std::vector<std::string> doubts(const TaskEnvironment& environment) {
  std::vector<std::string> found = environment.warnings;
  std::string here;
  std::string elsewhere;
  for (const auto& [job, tasks] : environment.cluster.jobs()) {
    for (const auto& [index, address] : tasks) {
      const std::string name = fmt::format("{} at {}", TaskSpec{job, index}.name(), address);
      (is_loopback(address) ? here : elsewhere) = name;
      if (address.ends_with(":0") && environment.cluster.count() > 1) {
        found.push_back(fmt::format("{} has port 0, to which no task can connect", name));
      }
    }
  }
  if (!here.empty() && !elsewhere.empty()) {
    found.push_back(fmt::format("{} can be reached from its own host only, while {} is elsewhere",
                                here, elsewhere));
  }
  if (environment.rendezvous && is_loopback(environment.rendezvous->address)) {
    found.push_back(fmt::format("the store at {} can be reached from its own host only",
                                environment.rendezvous->address));
  }
  return found;
}

}  // namespace

std::string_view default_strategy(const TaskEnvironment& environment) {
  if (environment.num_ps_replicas > 0) return "parameter server, synchronous";
  return environment.num_worker_replicas > 1 ? "collective" : "one process";
}

std::string explain(const EnvironmentVariables& variables) {
  const TaskEnvironment environment = read_task_environment(variables);
  std::string text = sources_text(variables, environment);
  text += table(rows_of(environment));
  text +=
      fmt::format("{:<10} {}: {}\n", "this task", environment.task.name(), role_of(environment));
  if (!environment.is_evaluator()) {
    const std::int64_t workers = environment.num_worker_replicas;
    text += fmt::format("{:<10} {}\n", "chief", chief_text(environment));
    text += fmt::format("{:<10} {}\n", "peers", peers_text(environment));
    text += fmt::format("{:<10} {} by default: {} task{} with one device each\n", "replicas",
                        workers, workers, workers == 1 ? "" : "s");
    text += fmt::format("{:<10} {} by default: {}\n", "strategy", default_strategy(environment),
                        strategy_reason(environment));
  }
  if (environment.model_dir) {
    text += fmt::format("{:<10} {}\n", "model_dir", *environment.model_dir);
  }
  if (!environment.environment.empty()) {
    text += fmt::format("{:<10} {}\n", "environ.", environment.environment);
  }
  for (const std::string& doubt : doubts(environment)) {
    text += fmt::format("{:<10} {}\n", "warning", doubt);
  }
  return text;
}

std::string explain_json(const EnvironmentVariables& variables) {
  using json = nlohmann::ordered_json;
  const TaskEnvironment environment = read_task_environment(variables);
  json all{{"source", environment.source},
           {"task", {{"type", environment.task.type}, {"index", environment.task.index}}},
           {"is_chief", environment.is_chief},
           {"is_alone", environment.is_alone()}};
  all["cluster"] = json::object();
  for (const auto& [job, tasks] : environment.cluster.jobs()) {
    for (const auto& [index, address] : tasks) all["cluster"][job][std::to_string(index)] = address;
  }
  all["rendezvous"] = nullptr;
  if (environment.rendezvous) all["rendezvous"] = environment.rendezvous->address;
  all["peers"] = json::array();
  for (const Peer& peer : environment.peers) {
    all["peers"].push_back({{"task", peer.task.name()}, {"address", peer.address}});
  }
  all["num_worker_replicas"] = environment.num_worker_replicas;
  all["num_ps_replicas"] = environment.num_ps_replicas;
  all["global_id_in_cluster"] = nullptr;
  if (environment.global_id_in_cluster) {
    all["global_id_in_cluster"] = *environment.global_id_in_cluster;
  }
  all["strategy"] = default_strategy(environment);
  all["warnings"] = doubts(environment);
  return all.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace muster
