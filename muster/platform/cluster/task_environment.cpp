#include "muster/platform/cluster/task_environment.h"

#include <fmt/core.h>

namespace muster {

std::string TaskSpec::name() const { return fmt::format("{}:{}", type, index); }

bool TaskEnvironment::needs_server() const {
  return cluster.count() > 1 && environment != "google";
}

bool TaskEnvironment::is_alone() const {
  return cluster.count() <= 1 && !rendezvous && !is_evaluator();
}

}  // namespace muster
