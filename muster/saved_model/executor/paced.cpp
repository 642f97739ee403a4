#include "muster/saved_model/executor/paced_internal.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <vector>

#include "muster/saved_model/executor/op_table_internal.h"

namespace muster::executor {
namespace {

/// Elements that are copied, or computed, at a time.
constexpr std::int64_t kCopied = std::int64_t{1} << 22;
constexpr std::int64_t kMapped = std::int64_t{1} << 24;

// The first axis that can be halved; there is one, as there are several elements.
std::int64_t long_axis(at::IntArrayRef sizes) {
  const auto found = std::ranges::find_if(sizes, [](std::int64_t size) { return size > 1; });
  return found - sizes.begin();
}

std::vector<at::Tensor> part_of(std::span<const at::Tensor> operands, std::int64_t axis,
                                std::int64_t begin, std::int64_t length) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& operand : operands) parts.push_back(operand.narrow(axis, begin, length));
  return parts;
}

// Into a part of the result, which the first part makes.
void map_into(std::span<const at::Tensor> operands, const Budget& budget,
              const ElementWise& compute, const std::function<at::Tensor(at::ScalarType)>& target) {
  const auto count = operands[0].numel();
  if (count <= kMapped) {
    budget.check_time();
    const at::Tensor made = compute(operands);
    target(made.scalar_type()).copy_(made);
    return;
  }
  const std::int64_t axis = long_axis(operands[0].sizes());
  const std::int64_t size = operands[0].size(axis);
  const std::int64_t half = size / 2;
  for (const auto& [begin, length] :
       {std::pair(std::int64_t{0}, half), std::pair(half, size - half)}) {
    map_into(part_of(operands, axis, begin, length), budget, compute,
             [&, begin = begin, length = length](at::ScalarType type) {
               return target(type).narrow(axis, begin, length);
             });
  }
}

void multiply_into(const at::Tensor& left, const at::Tensor& right, const at::Tensor& to,
                   const Budget& budget) {
  const std::int64_t each = std::max<std::int64_t>(right.size(0) * right.size(1), 1);
  const std::int64_t rows = std::max<std::int64_t>(kMostProducts / each, 1);
  for (std::int64_t begin = 0; begin < left.size(0); begin += rows) {
    budget.check_time();
    const std::int64_t count = std::min(rows, left.size(0) - begin);
    to.narrow(0, begin, count).copy_(at::matmul(left.narrow(0, begin, count), right));
  }
}

}  // namespace

void paced_copy(const at::Tensor& from, const at::Tensor& to, const Budget& budget) {
  if (from.numel() <= kCopied) {
    to.copy_(from);
    budget.check_time();
    return;
  }
  const std::int64_t axis = long_axis(from.sizes());
  const std::int64_t half = from.size(axis) / 2;
  const std::int64_t rest = from.size(axis) - half;
  paced_copy(from.narrow(axis, 0, half), to.narrow(axis, 0, half), budget);
  paced_copy(from.narrow(axis, half, rest), to.narrow(axis, half, rest), budget);
}

at::Tensor paced_map(std::span<const at::Tensor> operands, const Budget& budget,
                     const ElementWise& compute) {
  std::vector<std::int64_t> sizes = operands[0].sizes().vec();
  for (const at::Tensor& operand : operands.subspan(1)) {
    sizes = broadcast_sizes(sizes, operand.sizes());
  }
  const bool is_large = graph::element_count(sizes).value_or(0) > 2 * kMapped;
  if (!is_large || !operands[0].is_cpu()) return compute(operands);
  std::vector<at::Tensor> expanded;
  for (const at::Tensor& operand : operands) expanded.push_back(operand.expand(sizes));
  at::Tensor out;
  map_into(expanded, budget, compute, [&](at::ScalarType type) {
    if (!out.defined()) out = at::empty(sizes, type);
    return out;
  });
  return out;
}

at::Tensor paced_product(const at::Tensor& left, const at::Tensor& right, const Budget& budget) {
  const auto batch = broadcast_sizes(left.sizes().slice(0, left.sizes().size() - 2),
                                     right.sizes().slice(0, right.sizes().size() - 2));
  auto sizes = batch;
  sizes.insert(sizes.end(), {left.size(-2), right.size(-1)});
  auto products = sizes;
  products.push_back(left.size(-1));
  const bool is_large =
      graph::element_count(products).value_or(kMostProducts + 1) > kMostProducts && left.is_cpu();
  if (!is_large) return at::matmul(left, right);
  const auto flat = [&](const at::Tensor& factor) {
    auto whole = batch;
    whole.insert(whole.end(), {factor.size(-2), factor.size(-1)});
    return factor.expand(whole).reshape({-1, factor.size(-2), factor.size(-1)});
  };
  const at::Tensor first = flat(left);
  const at::Tensor second = flat(right);
  const at::Tensor out = at::empty({first.size(0), left.size(-2), right.size(-1)}, left.options());
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    multiply_into(first.select(0, i), second.select(0, i), out.select(0, i), budget);
  }
  return out.reshape(sizes);
}

}  // namespace muster::executor
