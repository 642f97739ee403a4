#include "muster/platform/cluster/task_spec_def.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "muster/base/error.h"
#include "muster/platform/cluster/environment_forms_internal.h"
#include "muster/platform/cluster/placement_internal.h"
#include "muster/platform/cluster/tf_config.h"

namespace muster {
namespace {

constexpr std::string_view kTaskSpecSource = "JOB_NAME";
constexpr std::array kTypes{job::kMaster, job::kChief, job::kWorker, job::kPs, job::kEvaluator};

std::int64_t size_of(const std::vector<std::string>& hosts) {
  return static_cast<std::int64_t>(hosts.size());
}

JobTasks numbered(const std::vector<std::string>& hosts, std::size_t first = 0) {
  JobTasks tasks;
  for (std::size_t i = first; i < hosts.size(); ++i) {
    tasks[static_cast<std::int64_t>(i - first)] = hosts[i];
  }
  return tasks;
}

std::vector<std::string> hosts_of(const ClusterSpec& cluster, std::string_view job) {
  const auto found = cluster.jobs().find(job);
  std::vector<std::string> hosts;
  if (found == cluster.jobs().end()) return hosts;
  for (const auto& [index, address] : found->second) {
    if (index != size_of(hosts)) {
      throw UsageError(
          "TF_CONFIG: cluster.{} has no task {}, but a TaskSpecDef numbers its hosts without gaps",
          job, hosts.size());
    }
    hosts.push_back(address);
  }
  return hosts;
}

std::optional<std::string> master_of(const ClusterSpec& cluster) {
  const auto job = cluster.has_job(job::kMaster) ? job::kMaster : job::kChief;
  return cluster.address(job, 0);
}

// The constructor's errors, with the variable that they come from.
TaskSpecDef checked(TaskSpecDefOptions options, std::string_view source) {
  try {
    return TaskSpecDef(std::move(options));
  } catch (const InvalidArgument& error) {
    throw UsageError("{}: {}", source, error.message());
  }
}

TaskSpecDef of_tf_config(std::string_view text) {
  TfConfigTask read = read_tf_config_task(text);
  TaskSpecDefOptions options{.type = std::move(read.task.type),
                             .index = read.task.index,
                             .trial = std::move(read.trial),
                             .ps_hosts = hosts_of(read.cluster, job::kPs),
                             .worker_hosts = hosts_of(read.cluster, job::kWorker),
                             .master = master_of(read.cluster)};
  return checked(std::move(options), "TF_CONFIG");
}

}  // namespace

std::vector<std::string> split_hosts(std::string_view hosts) {
  std::vector<std::string> list;
  while (!hosts.empty()) {
    const auto comma = std::min(hosts.find(','), hosts.size());
    std::string_view host = hosts.substr(0, comma);
    hosts.remove_prefix(std::min(comma + 1, hosts.size()));
    const auto first = host.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) continue;
    host = host.substr(first, host.find_last_not_of(" \t\r\n") - first + 1);
    list.emplace_back(host);
  }
  return list;
}

TaskSpecDef::TaskSpecDef(TaskSpecDefOptions options) : options_(std::move(options)) {
  if (std::find(kTypes.begin(), kTypes.end(), options_.type) == kTypes.end()) {
    throw InvalidArgument(
        "a task's type is \"master\", \"chief\", \"worker\", \"ps\" or \"evaluator\", not {}",
        internal::in_quotes(options_.type));
  }
  if (options_.index < 0) {
    throw InvalidArgument("a task's index must not be negative: {}", options_.index);
  }
  if (options_.master && options_.master->empty()) options_.master.reset();
  ClusterSpec::Jobs jobs{{std::string(job::kPs), numbered(options_.ps_hosts)},
                         {std::string(job::kWorker), numbered(options_.worker_hosts)}};
  if (options_.master) jobs[std::string(job::kMaster)] = {{0, *options_.master}};
  const ClusterSpec cluster(std::move(jobs));  // Throws for what is no address.
  if (is_distributed() && !is_evaluator() && !own_address()) {
    throw InvalidArgument("{}:{} is not a task of the cluster {}", options_.type, options_.index,
                          internal::shortened(cluster.to_string(), 2000));
  }
}

bool TaskSpecDef::is_distributed() const {
  const std::int64_t training = size_of(options_.worker_hosts) + (options_.master ? 1 : 0);
  return training >= 1 && training + size_of(options_.ps_hosts) > 1;
}

std::int64_t TaskSpecDef::num_workers() const {
  if (!is_distributed()) return 1;
  return size_of(options_.worker_hosts) + (options_.master ? 1 : 0);
}

std::int64_t TaskSpecDef::num_ps() const {
  return is_distributed() ? size_of(options_.ps_hosts) : 0;
}

std::int64_t TaskSpecDef::shard_index() const {
  return is_distributed() && options_.master && is_worker() ? options_.index + 1 : options_.index;
}

bool TaskSpecDef::is_master() const {
  if (is_evaluator()) return false;
  if (!is_distributed()) return true;
  if (!options_.master) return is_worker() && options_.index == 0;
  return options_.type == job::kMaster || options_.type == job::kChief;
}

bool TaskSpecDef::is_evaluator() const {
  if (options_.type == job::kEvaluator) return true;
  return last_worker_evaluates_ && is_worker() && options_.index == size_of(options_.worker_hosts);
}

std::optional<std::string> TaskSpecDef::own_address() const {
  const auto index = static_cast<std::size_t>(options_.index);
  if (is_worker() || is_ps()) {
    const auto& hosts = is_ps() ? options_.ps_hosts : options_.worker_hosts;
    if (index >= hosts.size()) return std::nullopt;
    return hosts[index];
  }
  return index == 0 ? options_.master : std::nullopt;
}

std::optional<std::string> TaskSpecDef::target() const {
  if (!is_distributed() || is_evaluator()) return std::nullopt;
  return "grpc://" + *own_address();
}

TaskSpecDef TaskSpecDef::use_last_worker_as_evaluator() const {
  if (options_.worker_hosts.empty() || num_workers() <= 1) {
    throw FailedPrecondition(
        "use_last_worker_as_evaluator: {} of this cluster train, and one must be left when the "
        "last worker evaluates; add a worker",
        num_workers());
  }
  TaskSpecDef without = *this;
  without.options_.worker_hosts.pop_back();
  without.last_worker_evaluates_ = true;
  return without;
}

TaskEnvironment TaskSpecDef::to_task_environment() const {
  TaskEnvironment environment;
  environment.source = kTaskSpecSource;
  environment.trial = options_.trial;
  if (!is_distributed() && !is_evaluator()) return environment;
  const bool worker_is_chief = !options_.master;
  const bool evaluated_elsewhere = worker_is_chief || last_worker_evaluates_ || is_evaluator();
  const std::string chief(evaluated_elsewhere ? job::kChief : job::kMaster);
  ClusterSpec::Jobs jobs{{std::string(job::kPs), numbered(options_.ps_hosts)}};
  jobs[std::string(job::kWorker)] = numbered(options_.worker_hosts, worker_is_chief ? 1 : 0);
  if (options_.master) jobs[chief] = {{0, *options_.master}};
  if (worker_is_chief && !options_.worker_hosts.empty()) {
    jobs[chief] = {{0, options_.worker_hosts.front()}};
  }
  environment.cluster = ClusterSpec(std::move(jobs));
  environment.task = {options_.type, options_.index};
  if (is_evaluator()) {
    environment.task = {std::string(job::kEvaluator), 0};
  } else if (is_master()) {
    environment.task = {chief, 0};
  } else if (is_worker() && worker_is_chief) {
    environment.task.index -= 1;
  }
  internal::settle_cluster(environment, kTaskSpecSource);
  internal::settle_task(environment, kTaskSpecSource);
  return environment;
}

std::optional<TaskSpecDef> create_task_spec_def(const EnvironmentVariables& variables) {
  if (const auto text = internal::find_variable(variables, "TF_CONFIG")) return of_tf_config(*text);
  if (internal::means_hosts_place(variables)) return task_spec_def_of_hosts(variables);
  return std::nullopt;
}

std::optional<TaskSpecDef> create_task_spec_def() {
  return create_task_spec_def(variables_of_this_process());
}

TaskSpecDef task_spec_def_of_hosts(const EnvironmentVariables& variables) {
  const auto list = [&](std::string_view name) {
    return split_hosts(internal::find_variable(variables, name).value_or(""));
  };
  const auto name = internal::find_variable(variables, "JOB_NAME");
  if (!name) {
    throw UsageError(
        "JOB_NAME is not set, though PS_HOSTS, WORKER_HOSTS or MASTER_HOST is; set it to "
        "\"master\", \"worker\" or \"ps\", or unset those");
  }
  const std::vector<std::string> masters = list("MASTER_HOST");
  if (masters.size() > 1) {
    throw UsageError("MASTER_HOST must name one host, but names {}", masters.size());
  }
  TaskSpecDefOptions options{
      .type = std::string(*name),
      .index = internal::find_number(variables, "TASK_INDEX", 0,
                                     std::numeric_limits<std::int32_t>::max())
                   .value_or(0),
      .ps_hosts = list("PS_HOSTS"),
      .worker_hosts = list("WORKER_HOSTS")};
  if (!masters.empty()) options.master = masters.front();
  return checked(std::move(options), "JOB_NAME, TASK_INDEX, PS_HOSTS, WORKER_HOSTS, MASTER_HOST");
}

}  // namespace muster
