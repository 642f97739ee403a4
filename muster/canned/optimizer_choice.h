#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/optim/optimizer.h"

namespace muster {

/// The optimizer of a canned estimator: nothing, which is the estimator's own; a name such as
/// "adam" (see optimizer_by_name()), which takes the estimator's learning rate; or a value, with a
/// learning rate of its own.
class OptimizerChoice {
 public:
  OptimizerChoice() = default;
  OptimizerChoice(std::string name);     // NOLINT(google-explicit-constructor)
  OptimizerChoice(const char* name);     // NOLINT(google-explicit-constructor)
  OptimizerChoice(Optimizer optimizer);  // NOLINT(google-explicit-constructor)

  /// Nothing was chosen.
  bool empty() const { return name_.empty() && !optimizer_; }
  /// Throws InvalidArgument for an unknown name.
  Optimizer resolve(std::string_view default_name, const LearningRate& learning_rate) const;

 private:
  std::string name_;
  std::optional<Optimizer> optimizer_;
};

}  // namespace muster
