#include <cmath>
#include <utility>
#include <vector>

#include "muster/nn/optim/named_optimizer_internal.h"
#include "muster/nn/optim/whole_variable_internal.h"

namespace muster {
namespace {

struct LambConstants {
  double beta1, beta2;
  float one_minus_beta1, one_minus_beta2, epsilon, weight_decay;
};

void update_by_lamb(const LambConstants& k, const ElementUpdate& u) {
  const auto t = static_cast<double>(u.step + 1);
  const auto corrected1 = static_cast<float>(1.0 / (1.0 - std::pow(k.beta1, t)));
  const auto corrected2 = static_cast<float>(1.0 / (1.0 - std::pow(k.beta2, t)));
  std::vector<float> direction(u.values.size());
  internal::for_elements(u.values.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const float g = u.gradients[i];
      float& m = u.slots[0][i];
      float& v = u.slots[1][i];
      m += (g - m) * k.one_minus_beta1;
      v += (g * g - v) * k.one_minus_beta2;
      direction[i] =
          m * corrected1 / (std::sqrt(v * corrected2) + k.epsilon) + k.weight_decay * u.values[i];
    }
  });
  const double size = internal::norm_of(u.values);
  const double length = internal::norm_of(direction);
  const double trust = size > 0 && length > 0 ? size / length : 1.0;
  const auto rate = static_cast<float>(u.learning_rate * trust);
  internal::for_elements(u.values.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) u.values[i] -= rate * direction[i];
  });
}

}  // namespace

Optimizer lamb(LambOptions options) {
  const auto require = [](bool holds, const char* option, const char* rule, double value) {
    internal::require_option(holds, "lamb", option, rule, value);
  };
  require(options.beta1 >= 0 && options.beta1 < 1, "beta1", "in [0, 1)", options.beta1);
  require(options.beta2 >= 0 && options.beta2 < 1, "beta2", "in [0, 1)", options.beta2);
  require(options.epsilon >= 0, "epsilon", "not negative", options.epsilon);
  require(options.weight_decay >= 0, "weight_decay", "not negative", options.weight_decay);
  const LambConstants constants{.beta1 = options.beta1,
                                .beta2 = options.beta2,
                                .one_minus_beta1 = static_cast<float>(1.0 - options.beta1),
                                .one_minus_beta2 = static_cast<float>(1.0 - options.beta2),
                                .epsilon = static_cast<float>(options.epsilon),
                                .weight_decay = static_cast<float>(options.weight_decay)};
  return custom_optimizer(
      {.name = "lamb",
       .learning_rate = std::move(options.learning_rate),
       .constants = {{"beta1", options.beta1},
                     {"beta2", options.beta2},
                     {"epsilon", options.epsilon},
                     {"weight_decay", options.weight_decay}},
       .slots = {{"Lamb", 0}, {"Lamb_1", 0}},
       .update = [constants](const ElementUpdate& u) { update_by_lamb(constants, u); },
       .whole_variables = true});
}

namespace internal {

NamedOptimizer lamb_named_optimizer() {
  return {.name = "lamb",
          .make = [](LearningRate rate) { return lamb({.learning_rate = std::move(rate)}); },
          .default_rate = 0.001};
}

}  // namespace internal
}  // namespace muster
