#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "muster/nn/optim/optimizer.h"
#include "muster/nn/optim/update_rules_internal.h"

namespace muster::internal {

/// The order is the one in which the kernels take them.
std::vector<OptimizerSlot> slots_of(const Optimizer& optimizer);

/// beta1^t and beta2^t of an Adam. Floats multiplied once a step, as TensorFlow keeps them, so
/// that a checkpoint holds all there is of them.
struct BetaPowers {
  float beta1 = 1;
  float beta2 = 1;
};
/// The powers before the first step; nothing for an optimizer that has none.
std::optional<BetaPowers> first_powers(const Optimizer& optimizer);
BetaPowers next_powers(const Optimizer& optimizer, BetaPowers powers);

/// Null for the optimizers that have a rule.
const CustomOptions* custom_of(const Optimizer& optimizer);

UpdateRule rule_of(const Optimizer& optimizer, double learning_rate, BetaPowers powers);

}  // namespace muster::internal
