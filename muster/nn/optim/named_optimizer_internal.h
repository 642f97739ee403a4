#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "muster/nn/optim/optimizer.h"

namespace muster::internal {

/// An optimizer that optimizer_by_name() knows.
struct NamedOptimizer {
  std::string_view name;
  Optimizer (*make)(LearningRate);
  std::optional<double> default_rate{};
};

/// Those of files NAME_optimizer.cpp, each of which defines NAME_named_optimizer(): a table that
/// CMakeLists.txt writes.
std::vector<NamedOptimizer> optimizers_of_files();

}  // namespace muster::internal
