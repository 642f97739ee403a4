#include "muster/nn/optim/weight_decay.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/nn/optim/tensor_kernels_internal.h"

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

/// The touched rows that are among the part's.
RowGradient touched_in(const VariablePart& part, const Variable& table,
                       const Gradients& gradients) {
  const RowGradient& touched = gradients.rows.at(static_cast<std::size_t>(table.rows_index));
  const bool is_whole = part.first == 0 && part.last == table.value.size(0);
  if (touched.empty() || is_whole) return touched;
  const at::Tensor rows = touched.rows.cpu();
  const std::int64_t* row = rows.data_ptr<std::int64_t>();
  const std::int64_t begin = std::lower_bound(row, row + rows.numel(), part.first) - row;
  const std::int64_t end = std::lower_bound(row, row + rows.numel(), part.last) - row;
  return {touched.rows.narrow(0, begin, end - begin), touched.values.narrow(0, begin, end - begin)};
}

/// Calls `visit` with the values that took part, in the order of the parts. Decay is added to the
/// gradients that are here.
template <typename Visit>
void add_to_parts(const Variables& variables, Gradients& gradients, const WeightDecay& decay,
                  std::span<const VariablePart> parts, const Visit& visit) {
  const auto factor = static_cast<float>(decay.factor);
  for (const VariablePart& part : parts) {
    const Variable& variable = variables.all()[part.variable];
    if (!takes_part(variable, decay)) continue;
    if (variable.dense()) {
      const std::int64_t begin = variable.offset + part.first;
      const std::int64_t end = variable.offset + part.last;
      const at::Tensor here = gradients.within(begin, end);
      const std::int64_t first = std::max(begin, gradients.first);
      if (here.numel() > 0) {
        internal::add_scaled(factor, variables.flat().narrow(0, first, here.numel()), here);
      }
      visit(variables.flat().narrow(0, begin, end - begin));
      continue;
    }
    const RowGradient rows = touched_in(part, variable, gradients);
    if (rows.empty()) continue;
    const at::Tensor touched = variable.value.index_select(0, rows.rows);
    internal::add_scaled(factor, touched, rows.values);
    visit(touched);
  }
}

}  // namespace

double add_weight_decay(const Variables& variables, Gradients& gradients,
                        const WeightDecay& decay) {
  check_factor(decay.factor);
  double squares = 0;
  add_to_parts(variables, gradients, decay, variables.whole(),
               [&](const at::Tensor& values) { squares += internal::sum_of_squares(values); });
  return decay.factor * squares / 2;
}

void add_weight_decay(const Variables& variables, Gradients& gradients, const WeightDecay& decay,
                      std::span<const VariablePart> parts) {
  check_factor(decay.factor);
  add_to_parts(variables, gradients, decay, parts, [](const at::Tensor&) {});
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
