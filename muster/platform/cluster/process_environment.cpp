#include "muster/platform/cluster/process_environment.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <tuple>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/platform/cluster/environment_forms_internal.h"
#include "muster/platform/cluster/placement_internal.h"
#include "muster/platform/cluster/tf_config.h"

namespace muster {
namespace {

bool means_tf_config_place(const EnvironmentVariables& variables) {
  return internal::find_variable(variables, "TF_CONFIG").has_value();
}

TaskEnvironment read_tf_config_place(const EnvironmentVariables& variables) {
  return parse_tf_config(internal::find_variable(variables, "TF_CONFIG").value_or(""));
}

struct Form {
  std::string_view source;
  std::array<std::string_view, 12> variables;
  bool (*means_a_place)(const EnvironmentVariables&);
  TaskEnvironment (*read)(const EnvironmentVariables&);
};

// Open MPI before Slurm: mpirun inside a Slurm job hands its own task's SLURM_PROCID to all ranks
// of a host.
constexpr std::array<Form, 5> kForms{{
    {"TF_CONFIG", {"TF_CONFIG"}, means_tf_config_place, read_tf_config_place},
    {"JOB_NAME",
     {"JOB_NAME", "TASK_INDEX", "PS_HOSTS", "WORKER_HOSTS", "MASTER_HOST"},
     internal::means_hosts_place,
     internal::read_hosts_place},
    {"RANK",
     {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
     internal::means_rank_place,
     internal::read_rank_place},
    {"OMPI",
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", "MUSTER_NUM_PS", "MUSTER_CLUSTER_PORT"},
     internal::means_open_mpi_place,
     internal::read_open_mpi_place},
    {"SLURM",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
      "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID",
      "SLURM_DISTRIBUTION", "MUSTER_NUM_PS", "MUSTER_CLUSTER_PORT"},
     internal::means_slurm_place,
     internal::read_slurm_place},
}};

std::string in_words(const TaskEnvironment& environment) {
  return fmt::format("{} of {} workers and {} ps", environment.task.name(),
                     environment.num_worker_replicas, environment.num_ps_replicas);
}

bool is_same_place(const TaskEnvironment& a, const TaskEnvironment& b) {
  const auto facts = [](const TaskEnvironment& e) {
    return std::tuple(e.num_worker_replicas, e.num_ps_replicas, e.global_id_in_cluster);
  };
  return facts(a) == facts(b);
}

// A launcher around a launcher is usual: one task of Slurm that starts many of its own.
void warn_of_another_place(const Form& later, const EnvironmentVariables& variables,
                           TaskEnvironment& chosen) {
  if (!later.means_a_place(variables)) return;
  try {
    const TaskEnvironment other = later.read(variables);
    if (other.is_alone() || is_same_place(chosen, other)) return;
    chosen.warnings.push_back(
        fmt::format("{} decides and makes this task {}, while {} would make it {}; unset what "
                    "is not meant",
                    chosen.source, in_words(chosen), later.source, in_words(other)));
  } catch (const UsageError&) {
    // An environment that is not used need not be right.
  }
}

// Who asks for four tasks and starts one by hand may wonder where the others are.
void warn_of_no_step(const EnvironmentVariables& variables, TaskEnvironment& alone) {
  const auto tasks = internal::find_variable(variables, "SLURM_NTASKS");
  if (!tasks || *tasks == "1") return;
  alone.warnings.push_back(
      fmt::format("SLURM_NTASKS is {}, but srun did not start this process (SLURM_STEP_ID is not "
                  "set): it runs alone",
                  internal::in_quotes(*tasks)));
}

}  // namespace

EnvironmentVariables variables_of_this_process() {
  EnvironmentVariables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::vector<EnvironmentForm> environment_forms(const EnvironmentVariables& variables) {
  std::vector<EnvironmentForm> found;
  for (const Form& form : kForms) {
    EnvironmentForm here{.source = std::string(form.source), .variables = {}};
    for (const std::string_view name : form.variables) {
      if (!name.empty() && internal::find_variable(variables, name)) {
        here.variables.emplace_back(name);
      }
    }
    here.means_a_place = form.means_a_place(variables);
    if (!here.variables.empty()) found.push_back(std::move(here));
  }
  return found;
}

TaskEnvironment read_task_environment(const EnvironmentVariables& variables) {
  const auto first = std::find_if(kForms.begin(), kForms.end(),
                                  [&](const Form& f) { return f.means_a_place(variables); });
  TaskEnvironment chosen;
  if (first == kForms.end()) {
    warn_of_no_step(variables, chosen);
    return chosen;
  }
  chosen = first->read(variables);
  for (auto later = first + 1; later != kForms.end(); ++later) {
    warn_of_another_place(*later, variables, chosen);
  }
  return chosen;
}

TaskEnvironment task_environment_from_env() {
  TaskEnvironment environment = read_task_environment(variables_of_this_process());
  for (const auto& warning : environment.warnings) log::warning("{}", warning);
  return environment;
}

namespace internal {

std::optional<std::string_view> find_variable(const EnvironmentVariables& variables,
                                              std::string_view name) {
  const auto found = variables.find(name);
  if (found == variables.end()) return std::nullopt;
  const std::string_view text = found->second;
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return std::nullopt;
  return text;
}

std::optional<std::int64_t> find_number(const EnvironmentVariables& variables,
                                        std::string_view name, std::int64_t least,
                                        std::int64_t most) {
  const auto text = find_variable(variables, name);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < least || value > most) {
    throw UsageError("{} must be a whole number from {} to {}: {}", name, least, most,
                     in_quotes(*text));
  }
  return value;
}

std::int64_t need_number(const EnvironmentVariables& variables, std::string_view name,
                         std::int64_t least, std::int64_t most, std::string_view form) {
  const auto value = find_number(variables, name, least, most);
  if (!value) throw UsageError("{} is not set, though {}; set it or unset those", name, form);
  return *value;
}

}  // namespace internal
}  // namespace muster
