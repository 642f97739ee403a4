#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/optim/optimizer.h"

/// What one step does to each element, as constants. They are computed in double once a step and
/// rounded to float here, so that every layout, thread and device uses the same ones. `keep` is
/// what decoupled weight decay leaves of a weight.
namespace muster::internal {

struct SgdRule {
  static constexpr std::size_t kSlots = 0;
  float rate, keep;
};
struct MomentumRule {
  static constexpr std::size_t kSlots = 1;
  float rate, keep, momentum;
};
struct NesterovRule {
  static constexpr std::size_t kSlots = 1;
  float rate, keep, momentum;
};
struct AdagradRule {
  static constexpr std::size_t kSlots = 1;
  float rate;
};
struct ProximalAdagradRule {
  static constexpr std::size_t kSlots = 1;
  float rate, l1, l2;
};
/// `rate` contains the bias corrections.
struct AdamRule {
  static constexpr std::size_t kSlots = 2;
  float rate, keep, one_minus_beta1, one_minus_beta2, epsilon;
};
struct RmsPropRule {
  static constexpr std::size_t kSlots = 2;
  float rate, one_minus_decay, momentum, epsilon;
};
struct CenteredRmsPropRule {
  static constexpr std::size_t kSlots = 3;
  float rate, one_minus_decay, momentum, epsilon;
};
/// For a learning rate power of -0.5.
struct FtrlRule {
  static constexpr std::size_t kSlots = 2;
  float rate, l1, two_l2, two_l2_shrinkage;
};
struct FtrlPowerRule {
  static constexpr std::size_t kSlots = 2;
  float rate, l1, two_l2, two_l2_shrinkage, minus_power;
};

using UpdateRule =
    std::variant<SgdRule, MomentumRule, NesterovRule, AdagradRule, ProximalAdagradRule, AdamRule,
                 RmsPropRule, CenteredRmsPropRule, FtrlRule, FtrlPowerRule>;

/// A slot's name after the variable's, and the value that every element starts with. The order is
/// the one in which the kernels take them.
struct SlotSpec {
  std::string suffix;
  float initial = 0;
};
std::vector<SlotSpec> slots_of(const Optimizer& optimizer);

/// beta1^t and beta2^t of an Adam. Floats multiplied once a step, as TensorFlow keeps them, so
/// that a checkpoint holds all there is of them.
struct BetaPowers {
  float beta1 = 1;
  float beta2 = 1;
};
/// The powers before the first step; nothing for an optimizer that has none.
std::optional<BetaPowers> first_powers(const Optimizer& optimizer);
BetaPowers next_powers(const Optimizer& optimizer, BetaPowers powers);

UpdateRule rule_of(const Optimizer& optimizer, double learning_rate, BetaPowers powers);

}  // namespace muster::internal
