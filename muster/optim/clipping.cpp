#include "muster/optim/clipping.h"

#include <cmath>
#include <string_view>

#include "muster/base/error.h"
#include "muster/optim/tensor_kernels_internal.h"

namespace muster {
namespace {

void check_limit(double limit, std::string_view what) {
  if (!(limit > 0) || !std::isfinite(limit)) {
    throw InvalidArgument("{}: the limit must be positive: {}", what, limit);
  }
}

/// What the gradient of a trainable variable consists of; undefined when no row was touched.
at::Tensor values_of(const Variable& variable, const Gradients& gradients) {
  if (variable.dense()) return gradients.of(variable);
  const RowGradient& rows = gradients.rows.at(static_cast<std::size_t>(variable.rows_index));
  return rows.empty() ? at::Tensor() : rows.values;
}

/// Calls `work` with the gradient of every trainable variable that has one, in variable order.
template <typename Work>
void for_each_gradient(const Variables& variables, const Gradients& gradients, const Work& work) {
  for (const Variable& variable : variables.all()) {
    if (!variable.spec.trainable) continue;
    const at::Tensor values = values_of(variable, gradients);
    if (values.defined()) work(values);
  }
}

/// All values of the gradients at once, for what looks at elements alone.
template <typename Work>
void for_all_values(const Gradients& gradients, const Work& work) {
  work(gradients.flat);
  for (const RowGradient& rows : gradients.rows) {
    if (!rows.empty()) work(rows.values);
  }
}

}  // namespace

void clip_by_value(Gradients& gradients, double limit) {
  check_limit(limit, "clip by value");
  for_all_values(gradients, [&](const at::Tensor& values) {
    internal::clamp(static_cast<float>(limit), values);
  });
}

void clip_by_norm(const Variables& variables, Gradients& gradients, double limit) {
  check_limit(limit, "clip by norm");
  for_each_gradient(variables, gradients, [&](const at::Tensor& values) {
    const double norm = std::sqrt(internal::sum_of_squares(values));
    if (!std::isfinite(norm) || norm <= limit) return;
    internal::scale(static_cast<float>(limit / norm), values);
  });
}

double global_norm(const Variables& variables, const Gradients& gradients) {
  double sum = 0;
  for_each_gradient(variables, gradients,
                    [&](const at::Tensor& values) { sum += internal::sum_of_squares(values); });
  return std::sqrt(sum);
}

double clip_by_global_norm(const Variables& variables, Gradients& gradients, double limit) {
  check_limit(limit, "clip by global norm");
  const double norm = global_norm(variables, gradients);
  if (std::isfinite(norm) && norm > limit) {
    for_all_values(gradients, [&](const at::Tensor& values) {
      internal::scale(static_cast<float>(limit / norm), values);
    });
  }
  return norm;
}

}  // namespace muster
