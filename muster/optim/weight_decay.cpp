#include "muster/optim/weight_decay.h"

#include <torch/types.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/optim/tensor_kernels_internal.h"

namespace muster {
namespace {

void check_factor(double factor) {
  if (!(factor >= 0) || !std::isfinite(factor)) {
    throw InvalidArgument("the weight decay factor must not be negative: {}", factor);
  }
}

bool takes_part(const Variable& variable, const WeightDecay& decay) {
  return variable.spec.trainable && (!decay.filter || decay.filter(variable.spec.name));
}

}  // namespace

double add_weight_decay(const Variables& variables, Gradients& gradients,
                        const WeightDecay& decay) {
  check_factor(decay.factor);
  const auto factor = static_cast<float>(decay.factor);
  double squares = 0;
  for (const Variable& variable : variables.all()) {
    if (!takes_part(variable, decay)) continue;
    if (variable.dense()) {
      internal::add_scaled(factor, variable.value, gradients.of(variable));
      squares += internal::sum_of_squares(variable.value);
      continue;
    }
    const RowGradient& rows = gradients.rows.at(static_cast<std::size_t>(variable.rows_index));
    if (rows.empty()) continue;
    const at::Tensor touched = variable.value.index_select(0, rows.rows);
    internal::add_scaled(factor, touched, rows.values);
    squares += internal::sum_of_squares(touched);
  }
  return decay.factor * squares / 2;
}

double weight_decay_loss(const Variables& variables, const WeightDecay& decay) {
  check_factor(decay.factor);
  double squares = 0;
  for (const Variable& variable : variables.all()) {
    if (takes_part(variable, decay)) squares += internal::sum_of_squares(variable.value);
  }
  return decay.factor * squares / 2;
}

at::Tensor decay_mask(const Variables& variables, const WeightDecay& decay) {
  check_factor(decay.factor);
  constexpr std::int64_t kGroup = 16;
  at::Tensor mask = at::zeros({variables.flat().numel() / kGroup}, at::kByte);
  for (const Variable& variable : variables.all()) {
    if (!variable.dense() || !takes_part(variable, decay)) continue;
    mask.narrow(0, variable.offset / kGroup, (variable.value.numel() + kGroup - 1) / kGroup)
        .fill_(1);
  }
  return mask;
}

}  // namespace muster
