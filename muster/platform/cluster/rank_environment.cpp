// RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as torchrun sets them, and Open MPI's OMPI_*.
#include <fmt/core.h>

#include <functional>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/platform/cluster/environment_forms_internal.h"
#include "muster/platform/cluster/placement_internal.h"

namespace muster::internal {
namespace {

constexpr std::int64_t kMostPort = 65535;
// Below 32768, where Linux's range of ephemeral ports begins.
constexpr std::int64_t kFirstPort = 12000;
constexpr std::uint64_t kJobsApart = 300;
constexpr std::int64_t kPortsAJob = 64;

ClusterSpec::Jobs jobs_of_ranks(const std::vector<std::string>& addresses, std::int64_t num_ps) {
  ClusterSpec::Jobs jobs;
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    const TaskSpec task = task_of_rank(static_cast<std::int64_t>(rank),
                                       static_cast<std::int64_t>(addresses.size()), num_ps);
    jobs[task.type][task.index] = addresses[rank];
  }
  return jobs;
}

void check_rank(std::string_view rank_name, std::int64_t rank, std::string_view size_name,
                std::int64_t size) {
  if (rank < size) return;
  throw UsageError("{} is {}, but {} is {}: ranks count from 0 to {}", rank_name, rank, size_name,
                   size, size - 1);
}

// The host part of an address; an IPv6 address gets its brackets.
std::string rendezvous_host(std::string_view host) {
  const bool bare_ipv6 = host.find(':') != std::string_view::npos && host.front() != '[';
  return bare_ipv6 ? fmt::format("[{}]", host) : std::string(host);
}

// FNV-1a: the same number on every host and in every build.
std::uint64_t number_of_name(std::string_view name) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

std::uint64_t open_mpi_job(const EnvironmentVariables& variables) {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
    if (const auto job = find_variable(variables, name)) return number_of_name(*job);
  }
  return 0;
}

}  // namespace

TaskSpec task_of_rank(std::int64_t rank, std::int64_t size, std::int64_t num_ps) {
  if (rank == 0) return {std::string(job::kChief), 0};
  const std::int64_t first_ps = size - num_ps;
  if (rank >= first_ps) return {std::string(job::kPs), rank - first_ps};
  return {std::string(job::kWorker), rank - 1};
}

std::int64_t num_ps_asked(const EnvironmentVariables& variables, std::int64_t size) {
  return find_number(variables, "MUSTER_NUM_PS", 0, size - 1).value_or(0);
}

TaskEnvironment place_of_rank(const EnvironmentVariables& variables,
                              const std::vector<std::string>& addresses, std::int64_t rank,
                              std::string_view source) {
  const auto size = static_cast<std::int64_t>(addresses.size());
  const std::int64_t num_ps = num_ps_asked(variables, size);
  TaskEnvironment environment;
  environment.source = source;
  if (size == 1) return environment;
  try {
    environment.cluster = ClusterSpec(jobs_of_ranks(addresses, num_ps));
  } catch (const InvalidArgument& error) {
    throw UsageError("{}: {}", source, error.message());
  }
  environment.task = task_of_rank(rank, size, num_ps);
  settle_cluster(environment, source);
  settle_task(environment, source);
  return environment;
}

TaskEnvironment place_at_rendezvous(const EnvironmentVariables& variables, std::int64_t rank,
                                    std::int64_t size, std::string_view source) {
  TaskEnvironment environment;
  environment.source = source;
  if (size == 1) return environment;
  if (num_ps_asked(variables, size) > 0) {
    throw UsageError(
        "MUSTER_NUM_PS asks for ps tasks, but {} gives no addresses to find them by; describe the "
        "cluster by TF_CONFIG",
        source);
  }
  const auto host = find_variable(variables, "MASTER_ADDR");
  if (!host) {
    throw UsageError(
        "MASTER_ADDR is not set, though {} makes this one of {} tasks; set it to the host of rank "
        "0",
        source, size);
  }
  const std::int64_t port = need_number(variables, "MASTER_PORT", 1, kMostPort, "MASTER_ADDR is");
  const std::string address = fmt::format("{}:{}", rendezvous_host(*host), port);
  try {
    const ClusterSpec check(ClusterSpec::Jobs{{std::string(job::kChief), {{0, address}}}});
  } catch (const InvalidArgument&) {
    throw UsageError("MASTER_ADDR must be the name or the number of a host: {}", in_quotes(*host));
  }
  const bool has_agent = find_variable(variables, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  environment.rendezvous = Rendezvous{.address = address, .is_running = has_agent};
  environment.task = task_of_rank(rank, size, 0);
  environment.is_chief = rank == 0;
  environment.num_worker_replicas = size;
  environment.global_id_in_cluster = rank;
  return environment;
}

std::int64_t first_port(const EnvironmentVariables& variables, std::uint64_t job_number) {
  if (const auto port = find_number(variables, "MUSTER_CLUSTER_PORT", 1, kMostPort)) return *port;
  return kFirstPort + static_cast<std::int64_t>(job_number % kJobsApart) * kPortsAJob;
}

bool means_rank_place(const EnvironmentVariables& variables) {
  return find_variable(variables, "RANK") && find_variable(variables, "WORLD_SIZE");
}

TaskEnvironment read_rank_place(const EnvironmentVariables& variables) {
  const std::int64_t size = need_number(variables, "WORLD_SIZE", 1, kMostTasks, "RANK is");
  const std::int64_t rank = need_number(variables, "RANK", 0, kMostTasks, "WORLD_SIZE is");
  check_rank("RANK", rank, "WORLD_SIZE", size);
  return place_at_rendezvous(variables, rank, size, "RANK");
}

bool means_open_mpi_place(const EnvironmentVariables& variables) {
  return find_variable(variables, "OMPI_COMM_WORLD_RANK") &&
         find_variable(variables, "OMPI_COMM_WORLD_SIZE");
}

// Open MPI tells no addresses. Ranks of one host need none; others meet where MASTER_ADDR says.
TaskEnvironment read_open_mpi_place(const EnvironmentVariables& variables) {
  const std::int64_t size =
      need_number(variables, "OMPI_COMM_WORLD_SIZE", 1, kMostTasks, "OMPI_COMM_WORLD_RANK is");
  const std::int64_t rank =
      need_number(variables, "OMPI_COMM_WORLD_RANK", 0, kMostTasks, "OMPI_COMM_WORLD_SIZE is");
  check_rank("OMPI_COMM_WORLD_RANK", rank, "OMPI_COMM_WORLD_SIZE", size);
  if (find_variable(variables, "MASTER_ADDR")) {
    return place_at_rendezvous(variables, rank, size, "OMPI");
  }
  const auto here = find_number(variables, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostTasks);
  if (here != size) {
    throw UsageError(
        "OMPI_COMM_WORLD_SIZE is {}, of which {} on this host, and Open MPI tells no addresses; "
        "say where rank 0 runs: mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500 ...",
        size, here ? std::to_string(*here) : "an unknown number");
  }
  const std::int64_t first = first_port(variables, open_mpi_job(variables));
  std::vector<std::string> addresses;
  for (std::int64_t i = 0; i < size; ++i) {
    addresses.push_back(fmt::format("127.0.0.1:{}", first + i));
  }
  return place_of_rank(variables, addresses, rank, "OMPI");
}

}  // namespace muster::internal
