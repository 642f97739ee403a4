#include <cmath>
#include <type_traits>

#include "muster/base/error.h"
#include "muster/nn/optim/update_rule_internal.h"

namespace muster::internal {
namespace {

template <typename Options>
constexpr bool kIsAdam =
    std::is_same_v<Options, AdamOptions> || std::is_same_v<Options, AdamWOptions>;

float to_float(double value) { return static_cast<float>(value); }

template <typename Options>
UpdateRule adam_rule(const Options& o, double rate, double weight_decay, BetaPowers powers) {
  const double corrected = rate * std::sqrt(1.0 - powers.beta2) / (1.0 - powers.beta1);
  return AdamRule{to_float(corrected), to_float(1.0 - rate * weight_decay), to_float(1.0 - o.beta1),
                  to_float(1.0 - o.beta2), to_float(o.epsilon)};
}

struct MakeRule {
  double rate;
  BetaPowers powers;

  UpdateRule operator()(const SgdOptions& o) const {
    return SgdRule{to_float(rate), to_float(1.0 - rate * o.weight_decay)};
  }
  UpdateRule operator()(const MomentumOptions& o) const {
    const float keep = to_float(1.0 - rate * o.weight_decay);
    if (o.nesterov) return NesterovRule{to_float(rate), keep, to_float(o.momentum)};
    return MomentumRule{to_float(rate), keep, to_float(o.momentum)};
  }
  UpdateRule operator()(const AdagradOptions&) const { return AdagradRule{to_float(rate)}; }
  UpdateRule operator()(const ProximalAdagradOptions& o) const {
    return ProximalAdagradRule{to_float(rate), to_float(o.l1), to_float(o.l2)};
  }
  UpdateRule operator()(const AdamOptions& o) const { return adam_rule(o, rate, 0.0, powers); }
  UpdateRule operator()(const AdamWOptions& o) const {
    return adam_rule(o, rate, o.weight_decay, powers);
  }
  UpdateRule operator()(const RmsPropOptions& o) const {
    const float one_minus_decay = to_float(1.0 - o.decay);
    const float momentum = to_float(o.momentum);
    const float epsilon = to_float(o.epsilon);
    if (o.centered) return CenteredRmsPropRule{to_float(rate), one_minus_decay, momentum, epsilon};
    return RmsPropRule{to_float(rate), one_minus_decay, momentum, epsilon};
  }
  UpdateRule operator()(const FtrlOptions& o) const {
    if (rate <= 0) {
      throw InvalidArgument(
          "ftrl: the learning rate is {}, but it must be positive: the weights are in proportion "
          "to "
          "it; let the schedule end above 0",
          rate);
    }
    const float l1 = to_float(o.l1);
    const float two_l2 = to_float(2.0 * o.l2);
    const float shrinkage = to_float(2.0 * o.l2_shrinkage);
    if (o.learning_rate_power == -0.5) return FtrlRule{to_float(rate), l1, two_l2, shrinkage};
    return FtrlPowerRule{to_float(rate), l1, two_l2, shrinkage, to_float(-o.learning_rate_power)};
  }
  UpdateRule operator()(const LionOptions& o) const {
    return LionRule{to_float(rate), to_float(1.0 - rate * o.weight_decay), to_float(1.0 - o.beta1),
                    to_float(1.0 - o.beta2)};
  }
  UpdateRule operator()(const CustomOptions& o) const {
    throw Internal("{} is a function, which the host calls", o.name);
  }
};

struct ListSlots {
  using Slots = std::vector<OptimizerSlot>;
  Slots operator()(const SgdOptions&) const { return {}; }
  Slots operator()(const MomentumOptions&) const { return {{"Momentum", 0}}; }
  Slots operator()(const AdagradOptions& o) const {
    return {{"Adagrad", to_float(o.initial_accumulator)}};
  }
  Slots operator()(const ProximalAdagradOptions& o) const {
    return {{"ProximalAdagrad", to_float(o.initial_accumulator)}};
  }
  Slots operator()(const AdamOptions&) const { return {{"Adam", 0}, {"Adam_1", 0}}; }
  Slots operator()(const AdamWOptions&) const { return {{"AdamW", 0}, {"AdamW_1", 0}}; }
  Slots operator()(const RmsPropOptions& o) const {
    if (o.centered) return {{"RMSProp", 1}, {"RMSProp_1", 0}, {"RMSProp_2", 0}};
    return {{"RMSProp", 1}, {"RMSProp_1", 0}};
  }
  Slots operator()(const FtrlOptions& o) const {
    return {{"Ftrl", to_float(o.initial_accumulator)}, {"Ftrl_1", 0}};
  }
  Slots operator()(const LionOptions&) const { return {{"Lion", 0}}; }
  Slots operator()(const CustomOptions& o) const { return o.slots; }
};

}  // namespace

std::vector<OptimizerSlot> slots_of(const Optimizer& optimizer) {
  return std::visit(ListSlots{}, optimizer.options());
}

std::optional<BetaPowers> first_powers(const Optimizer& optimizer) {
  return std::visit(
      [](const auto& o) -> std::optional<BetaPowers> {
        if constexpr (kIsAdam<std::decay_t<decltype(o)>>) {
          return BetaPowers{to_float(o.beta1), to_float(o.beta2)};
        } else {
          return std::nullopt;
        }
      },
      optimizer.options());
}

BetaPowers next_powers(const Optimizer& optimizer, BetaPowers powers) {
  const BetaPowers betas = first_powers(optimizer).value_or(BetaPowers{});
  return {powers.beta1 * betas.beta1, powers.beta2 * betas.beta2};
}

const CustomOptions* custom_of(const Optimizer& optimizer) {
  return std::get_if<CustomOptions>(&optimizer.options());
}

UpdateRule rule_of(const Optimizer& optimizer, double learning_rate, BetaPowers powers) {
  return std::visit(MakeRule{learning_rate, powers}, optimizer.options());
}

}  // namespace muster::internal
