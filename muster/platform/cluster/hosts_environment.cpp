// JOB_NAME, TASK_INDEX, PS_HOSTS, WORKER_HOSTS, MASTER_HOST.
#include <string_view>

#include "muster/base/error.h"
#include "muster/platform/cluster/environment_forms_internal.h"
#include "muster/platform/cluster/placement_internal.h"
#include "muster/platform/cluster/task_spec_def.h"

namespace muster::internal {
namespace {

bool has(const EnvironmentVariables& variables, std::string_view name) {
  return find_variable(variables, name).has_value();
}

bool has_hosts(const EnvironmentVariables& variables) {
  return has(variables, "PS_HOSTS") || has(variables, "WORKER_HOSTS") ||
         has(variables, "MASTER_HOST");
}

// Each of several such tasks would take itself for the only one, and write over the others' files.
void check_not_one_of_many(const TaskSpecDef& spec) {
  const bool first = spec.is_ps() ? false : spec.shard_index() == 0;
  if (spec.is_distributed() || first) return;
  throw UsageError(
      "JOB_NAME and TASK_INDEX make this task {}:{}, but WORKER_HOSTS or PS_HOSTS names no others; "
      "list the hosts of all tasks, or unset these variables to run alone",
      spec.type(), spec.index());
}

}  // namespace

// Jenkins sets JOB_NAME for jobs of its own, so that alone means nothing.
bool means_hosts_place(const EnvironmentVariables& variables) {
  return has_hosts(variables) || (has(variables, "JOB_NAME") && has(variables, "TASK_INDEX"));
}

TaskEnvironment read_hosts_place(const EnvironmentVariables& variables) {
  const TaskSpecDef spec = task_spec_def_of_hosts(variables);
  check_not_one_of_many(spec);
  return spec.to_task_environment();
}

}  // namespace muster::internal
