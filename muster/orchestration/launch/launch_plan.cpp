#include "muster/orchestration/launch/launch_plan_internal.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/thread_pool.h"
#include "muster/orchestration/launch/secret.h"

namespace muster::launch {
namespace {

constexpr std::int64_t kDefaultRestarts = 3;

std::vector<std::uint16_t> ports_in_a_row(const LaunchOptions& options) {
  const std::size_t count = ports_needed(options.cluster);
  if (*options.start_port + count > 65536) {
    throw InvalidArgument("{} ports from {} on go beyond 65535; start lower", count,
                          *options.start_port);
  }
  std::vector<std::uint16_t> ports;
  ports.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    ports.push_back(static_cast<std::uint16_t>(*options.start_port + i));
  }
  return ports;
}

void bind(std::vector<LaunchTask>& tasks, const LaunchOptions& options) {
  // Processors of other hosts are not known here.
  if (!options.cluster.hosts.empty()) return;
  std::vector<LaunchTask*> training;
  for (LaunchTask& task : tasks) {
    if (task.is_ps()) return;
    if (!task.is_evaluator()) training.push_back(&task);
  }
  // How many there will be is not known.
  if (options.least_workers && options.binding == Binding::kAuto) return;
  const std::vector<int> allowed = ThreadPool::allowed_processors();
  // Who has a quota shares these processors with other containers, which would be bound to the
  // same.
  const bool has_quota = ThreadPool::available_processors() < allowed.size();
  if (has_quota && options.binding == Binding::kAuto) return;
  const std::vector<int> processors = processors_for(options.binding, training.size(), allowed);
  for (std::size_t i = 0; i < processors.size(); ++i) {
    training[i]->processor = processors[i];
    training[i]->environment.push_back(fmt::format("MUSTER_HOST_PROCESSORS={}", allowed.size()));
  }
}

void check_hosts(const LaunchOptions& options) {
  if (options.cluster.hosts.empty()) return;
  for (const std::string& host : options.cluster.hosts) {
    // ssh would take it for an option, or a shell for more than a name.
    if (host.empty() || host.front() == '-' || host.find_first_of(" \t\n,/'\"") != host.npos) {
      throw InvalidArgument("not the name of a host: '{}'", host);
    }
  }
  if (options.cluster.is_single) throw InvalidArgument("a single process needs no hosts");
  if (options.ssh.empty()) throw InvalidArgument("no ssh to start tasks on hosts with");
  if (options.binding == Binding::kProcessor) {
    throw InvalidArgument("tasks are bound to processors of this host only; leave out the hosts");
  }
}

}  // namespace

void check_launch(const LaunchOptions& options) {
  if (options.command.empty()) throw InvalidArgument("no program to start");
  if (options.log_dir.empty()) throw InvalidArgument("the folder of the logs has an empty name");
  check_hosts(options);
  ports_needed(options.cluster);  // Throws for counts that make no cluster.
  if (options.least_workers && *options.least_workers > options.cluster.workers) {
    throw InvalidArgument("at least {} workers are more than at most {}", *options.least_workers,
                          options.cluster.workers);
  }
}

std::optional<ReservedPorts> reserve_ports(const LaunchOptions& options) {
  if (options.start_port) return std::nullopt;
  return ReservedPorts(ports_needed(options.cluster), options.port_range);
}

bool has_own_secret() {
  const char* const secret = std::getenv(kSecretVariable);
  return secret != nullptr && *secret != '\0';
}

std::vector<LaunchTask> tasks_of(const LaunchOptions& options,
                                 const std::optional<ReservedPorts>& ports) {
  auto tasks = local_cluster(options.cluster, ports ? ports->numbers() : ports_in_a_row(options));
  if (!options.cluster.is_single) bind(tasks, options);
  for (LaunchTask& task : tasks) {
    if (options.cluster.is_single) continue;
    if (options.least_workers) {
      task.environment.push_back(fmt::format("MUSTER_MIN_WORKERS={}", *options.least_workers));
    }
    if (options.has_tls) task.environment.emplace_back("MUSTER_TLS=1");
  }
  return tasks;
}

RestartPolicy parse_restart_policy(std::string_view text) {
  constexpr std::string_view kOnFailure = "on-failure";
  if (text == "never") return {};
  if (text == kOnFailure) return {.most_restarts = kDefaultRestarts};
  if (text.starts_with(kOnFailure) && text.substr(kOnFailure.size()).starts_with(":")) {
    const std::string_view number = text.substr(kOnFailure.size() + 1);
    RestartPolicy policy;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), policy.most_restarts);
    if (error == std::errc() && end == number.data() + number.size() && policy.most_restarts >= 0) {
      return policy;
    }
  }
  throw InvalidArgument("a restart policy is never, on-failure or on-failure:N: {}", text);
}

}  // namespace muster::launch
