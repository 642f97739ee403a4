#include "muster/nn/optim/clipping.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "muster/base/error.h"
#include "muster/nn/optim/tensor_kernels_internal.h"

namespace muster {
namespace {

void check_limit(double limit, std::string_view what) {
  if (!(limit > 0) || !std::isfinite(limit)) {
    throw InvalidArgument("{}: the limit must be positive: {}", what, limit);
  }
}

/// Values of the gradient of a trainable variable that are here; undefined when no row was touched.
at::Tensor values_of(const Variable& variable, const Gradients& gradients) {
  if (variable.dense()) {
    return gradients.within(variable.offset, variable.offset + variable.value.numel());
  }
  const RowGradient& rows = gradients.rows.at(static_cast<std::size_t>(variable.rows_index));
  return rows.empty() ? at::Tensor() : rows.values;
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

double clip_factor(double norm, double limit) {
  return std::isfinite(norm) && norm > limit ? limit / norm : 1.0;
}

SquareSums::SquareSums(const Variables& variables) : variables_(variables) {
  std::size_t next = 0;
  for (const Variable& variable : variables.all()) {
    first_block_.push_back(next);
    if (!variable.spec.trainable) continue;
    const std::int64_t size = variable.dense() ? variable.value.numel() : variable.value.size(0);
    const std::int64_t block = variable.dense() ? kNormBlock : kNormRowBlock;
    next += static_cast<std::size_t>((size + block - 1) / block);
  }
  first_block_.push_back(next);
  blocks_.assign(next, 0.0);
}

void SquareSums::add(const Gradients& gradients, const VariablePart& part) {
  const auto& [index, first, last] = part;
  const Variable& variable = variables_.all()[index];
  double* blocks = blocks_.data() + first_block_[index];
  if (variable.dense()) {
    for (std::int64_t at = first; at < last; at += kNormBlock) {
      const std::int64_t begin = variable.offset + at;
      blocks[at / kNormBlock] += internal::sum_of_squares(
          gradients.within(begin, begin + std::min(kNormBlock, last - at)));
    }
    return;
  }
  const RowGradient& touched = gradients.rows.at(static_cast<std::size_t>(variable.rows_index));
  if (touched.empty()) return;
  const at::Tensor rows = touched.rows.cpu();
  const std::int64_t* row = rows.data_ptr<std::int64_t>();
  const std::int64_t count = rows.numel();
  std::int64_t begin = std::lower_bound(row, row + count, first) - row;
  while (begin < count && row[begin] < last) {
    const std::int64_t block = row[begin] / kNormRowBlock;
    const std::int64_t end =
        std::lower_bound(row + begin, row + count, std::min((block + 1) * kNormRowBlock, last)) -
        row;
    blocks[block] += internal::sum_of_squares(touched.values.narrow(0, begin, end - begin));
    begin = end;
  }
}

void SquareSums::set(std::size_t variable, std::int64_t block, double sum) {
  blocks_[first_block_[variable] + static_cast<std::size_t>(block)] = sum;
}

double SquareSums::norm(std::size_t variable) const {
  double sum = 0;
  for (std::size_t b = first_block_[variable]; b < first_block_[variable + 1]; ++b) {
    sum += blocks_[b];
  }
  return std::sqrt(sum);
}

double SquareSums::global_norm() const {
  double sum = 0;
  for (const double block : blocks_) sum += block;
  return std::sqrt(sum);
}

namespace {

SquareSums square_sums(const Variables& variables, const Gradients& gradients) {
  SquareSums sums(variables);
  for (const VariablePart& part : variables.whole()) sums.add(gradients, part);
  return sums;
}

}  // namespace

void clip_by_norm(const Variables& variables, Gradients& gradients, double limit,
                  const SquareSums& sums) {
  check_limit(limit, "clip by norm");
  for (std::size_t i = 0; i < variables.all().size(); ++i) {
    const Variable& variable = variables.all()[i];
    if (!variable.spec.trainable) continue;
    const double factor = clip_factor(sums.norm(i), limit);
    const at::Tensor values = values_of(variable, gradients);
    if (factor != 1.0 && values.defined()) internal::scale(static_cast<float>(factor), values);
  }
}

void clip_by_norm(const Variables& variables, Gradients& gradients, double limit) {
  clip_by_norm(variables, gradients, limit, square_sums(variables, gradients));
}

double global_norm(const Variables& variables, const Gradients& gradients) {
  return square_sums(variables, gradients).global_norm();
}

void clip_by_global_norm(Gradients& gradients, double limit, const SquareSums& sums) {
  check_limit(limit, "clip by global norm");
  const double factor = clip_factor(sums.global_norm(), limit);
  if (factor == 1.0) return;
  for_all_values(gradients, [&](const at::Tensor& values) {
    internal::scale(static_cast<float>(factor), values);
  });
}

double clip_by_global_norm(const Variables& variables, Gradients& gradients, double limit) {
  const SquareSums sums = square_sums(variables, gradients);
  clip_by_global_norm(gradients, limit, sums);
  return sums.global_norm();
}

namespace {

// Where clip_factor() would make the host wait for the device.
void clip_where_it_lies(const at::Tensor& values, double limit) {
  const at::Tensor norm = values.to(at::kDouble).square_().sum().sqrt_();
  const at::Tensor clipped = norm.isfinite().logical_and_(norm > limit);
  values.mul_(at::where(clipped, limit / norm, at::ones_like(norm)).to(at::kFloat));
}

}  // namespace

void clip_by_norm_on_device(const Variables& variables, Gradients& gradients, double limit) {
  check_limit(limit, "clip by norm");
  for (const Variable& variable : variables.all()) {
    if (variable.dense()) clip_where_it_lies(gradients.of(variable), limit);
  }
}

void clip_by_global_norm_on_device(Gradients& gradients, double limit) {
  check_limit(limit, "clip by global norm");
  clip_where_it_lies(gradients.flat, limit);
}

}  // namespace muster
