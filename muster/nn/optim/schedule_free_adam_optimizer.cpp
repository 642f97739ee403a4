#include <cmath>
#include <utility>

#include "muster/nn/optim/named_optimizer_internal.h"
#include "muster/nn/optim/whole_variable_internal.h"

namespace muster {
namespace {

struct ScheduleFreeConstants {
  double beta1, beta2;
  float one_minus_beta2, epsilon, weight_decay;
};

// d = z - y for the paper's points y and z: x and the next y follow from it without the differences
// of near numbers that y, z or x alone would be taken from.
void update_schedule_free(const ScheduleFreeConstants& k, const ElementUpdate& u) {
  const double share = u.rate_share;
  const auto corrected =
      static_cast<float>(1.0 / (1.0 - std::pow(k.beta2, static_cast<double>(u.step + 1))));
  const auto pull = static_cast<float>(share);
  const auto rate_of_y = static_cast<float>(u.learning_rate * (1.0 - k.beta1 * (1.0 - share)));
  const auto rate_of_d = static_cast<float>(u.learning_rate * k.beta1);
  const auto keep = static_cast<float>(1.0 - share);
  for (std::size_t i = 0; i < u.values.size(); ++i) {
    const float g = u.gradients[i];
    float& y = u.values[i];
    float& d = u.slots[0][i];
    float& v = u.slots[1][i];
    v += (g * g - v) * k.one_minus_beta2;
    const float n = g / (std::sqrt(v * corrected) + k.epsilon) + k.weight_decay * y;
    y += pull * d - rate_of_y * n;
    d = keep * (d - rate_of_d * n);
  }
}

}  // namespace

Optimizer schedule_free_adam(ScheduleFreeAdamOptions options) {
  const auto require = [](bool holds, const char* option, const char* rule, double value) {
    internal::require_option(holds, "schedule_free_adam", option, rule, value);
  };
  require(options.beta1 > 0 && options.beta1 < 1, "beta1", "in (0, 1)", options.beta1);
  require(options.beta2 >= 0 && options.beta2 < 1, "beta2", "in [0, 1)", options.beta2);
  require(options.epsilon >= 0, "epsilon", "not negative", options.epsilon);
  require(options.weight_decay >= 0, "weight_decay", "not negative", options.weight_decay);
  const ScheduleFreeConstants constants{.beta1 = options.beta1,
                                        .beta2 = options.beta2,
                                        .one_minus_beta2 = static_cast<float>(1.0 - options.beta2),
                                        .epsilon = static_cast<float>(options.epsilon),
                                        .weight_decay = static_cast<float>(options.weight_decay)};
  return custom_optimizer(
      {.name = "schedule_free_adam",
       .learning_rate = std::move(options.learning_rate),
       .constants = {{"beta1", options.beta1},
                     {"beta2", options.beta2},
                     {"epsilon", options.epsilon},
                     {"weight_decay", options.weight_decay}},
       .slots = {{"ScheduleFree", 0}, {"ScheduleFree_1", 0}},
       .update = [constants](const ElementUpdate& u) { update_schedule_free(constants, u); },
       .averages_by_rate = true,
       .evaluated = EvaluationOffset{"ScheduleFree", 1.0 - 1.0 / options.beta1}});
}

namespace internal {

NamedOptimizer schedule_free_adam_named_optimizer() {
  return {
      .name = "schedule_free_adam",
      .make =
          [](LearningRate rate) { return schedule_free_adam({.learning_rate = std::move(rate)}); },
      .default_rate = 0.0025};
}

}  // namespace internal
}  // namespace muster
