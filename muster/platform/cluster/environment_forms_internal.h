#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/platform/cluster/process_environment.h"

/// One pair of functions a form: whether the variables mean a place in it, and which.
namespace muster::internal {

bool means_hosts_place(const EnvironmentVariables& variables);
TaskEnvironment read_hosts_place(const EnvironmentVariables& variables);

bool means_rank_place(const EnvironmentVariables& variables);
TaskEnvironment read_rank_place(const EnvironmentVariables& variables);

bool means_open_mpi_place(const EnvironmentVariables& variables);
TaskEnvironment read_open_mpi_place(const EnvironmentVariables& variables);

bool means_slurm_place(const EnvironmentVariables& variables);
TaskEnvironment read_slurm_place(const EnvironmentVariables& variables);

/// An empty variable counts as unset.
std::optional<std::string_view> find_variable(const EnvironmentVariables& variables,
                                              std::string_view name);
/// Throws UsageError, naming the variable, for anything but a whole number within the bounds.
std::optional<std::int64_t> find_number(const EnvironmentVariables& variables,
                                        std::string_view name, std::int64_t least,
                                        std::int64_t most);
/// The same, and missing is an error too; `form` says which other variables ask for it.
std::int64_t need_number(const EnvironmentVariables& variables, std::string_view name,
                         std::int64_t least, std::int64_t most, std::string_view form);

/// A task number of a launcher that counts from 0 over all tasks: 0 is the chief, the last `num_ps`
/// are ps, the others workers.
TaskSpec task_of_rank(std::int64_t rank, std::int64_t size, std::int64_t num_ps);

/// MUSTER_NUM_PS: how many of a launcher's tasks become ps; 0 without it. At least one task is left
/// to train.
std::int64_t num_ps_asked(const EnvironmentVariables& variables, std::int64_t size);

/// The place of `rank` among tasks with these addresses, in rank order.
TaskEnvironment place_of_rank(const EnvironmentVariables& variables,
                              const std::vector<std::string>& addresses, std::int64_t rank,
                              std::string_view source);

/// The place of `rank` among tasks that meet at MASTER_ADDR and MASTER_PORT.
TaskEnvironment place_at_rendezvous(const EnvironmentVariables& variables, std::int64_t rank,
                                    std::int64_t size, std::string_view source);

/// The first port of a launcher's job on each host: MUSTER_CLUSTER_PORT, or one that follows from
/// the job's number, below those that Linux hands out by itself.
std::int64_t first_port(const EnvironmentVariables& variables, std::uint64_t job_number);

/// No launcher starts more.
inline constexpr std::int64_t kMostTasks = 1 << 16;

}  // namespace muster::internal
