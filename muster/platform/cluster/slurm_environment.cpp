// SLURM_*: the tasks that one srun starts.
#include <fmt/core.h>

#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/platform/cluster/environment_forms_internal.h"
#include "muster/platform/cluster/placement_internal.h"
#include "muster/platform/cluster/slurm_node_list.h"

namespace muster::internal {
namespace {

constexpr std::string_view kSlurmSource = "SLURM";

// The step's own value if srun gives one, else the job's.
std::string_view first_set(const EnvironmentVariables& variables,
                           std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (find_variable(variables, name)) return name;
  }
  return *names.begin();
}

std::int64_t task_count(const EnvironmentVariables& variables) {
  const auto name = first_set(variables, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"});
  return need_number(variables, name, 1, kMostTasks, "SLURM_STEP_ID is");
}

template <typename Expand>
auto expanded(const EnvironmentVariables& variables, std::string_view name, Expand expand) {
  try {
    return expand(*find_variable(variables, name));
  } catch (const InvalidArgument& error) {
    throw UsageError("{}: {}", name, error.message());
  }
}

std::vector<std::string> nodes_of(const EnvironmentVariables& variables) {
  const auto name =
      first_set(variables, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (!find_variable(variables, name)) {
    throw UsageError("{} is not set, though SLURM_STEP_ID is: the hosts of the tasks are unknown",
                     name);
  }
  return expanded(variables, name, [](auto text) {
    return expand_slurm_node_list(text, static_cast<std::size_t>(kMostTasks));
  });
}

// Spread evenly where Slurm does not say.
std::vector<std::size_t> counts_of(const EnvironmentVariables& variables, std::size_t nodes,
                                   std::size_t tasks) {
  const auto name = first_set(variables, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (!find_variable(variables, name)) {
    std::vector<std::size_t> counts(nodes, tasks / nodes);
    for (std::size_t i = 0; i < tasks % nodes; ++i) ++counts[i];
    return counts;
  }
  auto counts = expanded(variables, name, [](auto text) {
    return expand_slurm_counts(text, static_cast<std::size_t>(kMostTasks));
  });
  const auto total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (counts.size() != nodes || total != tasks) {
    throw UsageError("{} is {}: {} tasks on {} hosts, but the step has {} tasks on {} hosts", name,
                     in_quotes(*find_variable(variables, name)), total, counts.size(), tasks,
                     nodes);
  }
  return counts;
}

// The host's number of every task, in the order in which Slurm counts tasks.
std::vector<std::size_t> hosts_of_tasks(const EnvironmentVariables& variables,
                                        const std::vector<std::size_t>& counts) {
  const auto distribution = find_variable(variables, "SLURM_DISTRIBUTION").value_or("block");
  std::vector<std::size_t> hosts;
  if (distribution.starts_with("cyclic")) {
    for (std::size_t round = 0; hosts.size() < std::accumulate(counts.begin(), counts.end(), 0UL);
         ++round) {
      for (std::size_t host = 0; host < counts.size(); ++host) {
        if (round < counts[host]) hosts.push_back(host);
      }
    }
    return hosts;
  }
  for (std::size_t host = 0; host < counts.size(); ++host) {
    hosts.insert(hosts.end(), counts[host], host);
  }
  return hosts;
}

// Slurm also tells each task its host: a distribution that we do not know shows here.
void check_own_host(const EnvironmentVariables& variables, std::int64_t rank, std::size_t host) {
  const auto given = find_number(variables, "SLURM_NODEID", 0, kMostTasks);
  if (!given || *given == static_cast<std::int64_t>(host)) return;
  throw UsageError(
      "SLURM_PROCID {} should be on host number {} with the distribution {}, but SLURM_NODEID is "
      "{}; start the step with --distribution=block or cyclic",
      rank, host, in_quotes(find_variable(variables, "SLURM_DISTRIBUTION").value_or("block")),
      *given);
}

std::uint64_t job_number(const EnvironmentVariables& variables) {
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  const auto name = first_set(variables, {"SLURM_JOB_ID", "SLURM_JOBID"});
  const std::int64_t job = need_number(variables, name, 0, kMost, "SLURM_STEP_ID is");
  const auto step =
      find_number(variables, first_set(variables, {"SLURM_STEP_ID", "SLURM_STEPID"}), 0, kMost);
  // Steps of a job may run side by side.
  return static_cast<std::uint64_t>(job) + 7 * static_cast<std::uint64_t>(step.value_or(0));
}

}  // namespace

// In the job script itself, or in the shell of salloc, the job's variables are set too, but the
// other tasks have not been started.
bool means_slurm_place(const EnvironmentVariables& variables) {
  return find_variable(variables, "SLURM_PROCID") &&
         (find_variable(variables, "SLURM_STEP_ID") || find_variable(variables, "SLURM_STEPID"));
}

TaskEnvironment read_slurm_place(const EnvironmentVariables& variables) {
  const std::int64_t tasks = task_count(variables);
  const std::int64_t rank =
      need_number(variables, "SLURM_PROCID", 0, kMostTasks, "SLURM_STEP_ID is");
  if (rank >= tasks) {
    throw UsageError("SLURM_PROCID is {}, but the step has {} tasks, counted from 0", rank, tasks);
  }
  const auto nodes = nodes_of(variables);
  const auto counts = counts_of(variables, nodes.size(), static_cast<std::size_t>(tasks));
  const auto hosts = hosts_of_tasks(variables, counts);
  check_own_host(variables, rank, hosts[static_cast<std::size_t>(rank)]);
  const std::int64_t first = first_port(variables, job_number(variables));
  std::vector<std::int64_t> next_port(nodes.size(), first);
  std::vector<std::string> addresses;
  for (const std::size_t host : hosts) {
    addresses.push_back(fmt::format("{}:{}", nodes[host], next_port[host]++));
  }
  return place_of_rank(variables, addresses, rank, kSlurmSource);
}

}  // namespace muster::internal
