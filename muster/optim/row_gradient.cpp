#include "muster/optim/row_gradient.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/optim/flat_kernels_internal.h"

namespace muster {
namespace {

std::span<const std::int64_t> as_span(const at::Tensor& rows) {
  return {rows.data_ptr<std::int64_t>(), static_cast<std::size_t>(rows.numel())};
}

void check_shapes(const at::Tensor& rows, const at::Tensor& values, std::string_view name) {
  if (rows.scalar_type() != at::kLong || values.scalar_type() != at::kFloat || rows.dim() != 1 ||
      values.dim() != 2 || rows.size(0) != values.size(0)) {
    throw InvalidArgument(
        "row gradient of `{}`: needs int64 rows [n] and float32 values [n, width], got {} [{}] and "
        "{} [{}]",
        name, c10::toString(rows.scalar_type()), fmt::join(rows.sizes(), ", "),
        c10::toString(values.scalar_type()), fmt::join(values.sizes(), ", "));
  }
}

void check_range(const at::Tensor& rows, std::int64_t row_count, std::string_view name) {
  if (rows.numel() == 0) return;
  const auto lowest = rows.min().item<std::int64_t>();
  const auto highest = rows.max().item<std::int64_t>();
  if (lowest < 0 || highest >= row_count) {
    throw OutOfRange("row gradient of `{}`: row {} is not in [0, {})", name,
                     lowest < 0 ? lowest : highest, row_count);
  }
}

/// The places of `rows` ordered by row, equal rows in their first order.
std::vector<std::size_t> order_of(std::span<const std::int64_t> rows) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t place) { return rows[place]; });
  return order;
}

RowGradient sum_rows_on_cpu(const at::Tensor& rows, const at::Tensor& values) {
  const auto source_rows = as_span(rows);
  const auto width = static_cast<std::size_t>(values.size(1));
  const std::vector<std::size_t> order = order_of(source_rows);
  std::int64_t unique = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    unique += i == 0 || source_rows[order[i]] != source_rows[order[i - 1]];
  }
  RowGradient sum{at::empty({unique}, rows.options()),
                  at::empty({unique, values.size(1)}, values.options())};
  auto* target_row = sum.rows.data_ptr<std::int64_t>() - 1;
  auto* target = sum.values.data_ptr<float>() - width;
  const float* source = values.data_ptr<float>();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const float* value = source + order[i] * width;
    if (i > 0 && *target_row == source_rows[order[i]]) {
      internal::add_scaled(width, 1.0f, value, target);
      continue;
    }
    *++target_row = source_rows[order[i]];
    target += width;
    std::copy_n(value, width, target);
  }
  return sum;
}

}  // namespace

RowGradient sum_rows(const at::Tensor& rows, const at::Tensor& values, std::int64_t row_count,
                     std::string_view name) {
  check_shapes(rows, values, name);
  check_range(rows, row_count, name);
  if (rows.is_cpu()) return sum_rows_on_cpu(rows.contiguous(), values.contiguous());
  const at::Tensor sum =
      at::sparse_coo_tensor(rows.unsqueeze(0), values, {row_count, values.size(1)}).coalesce();
  return {sum.indices().squeeze(0), sum.values()};
}

void check_row_gradient(const RowGradient& gradient, std::int64_t row_count, std::int64_t width,
                        std::string_view name) {
  if (gradient.empty()) return;
  check_shapes(gradient.rows, gradient.values, name);
  if (gradient.values.size(1) != width) {
    throw InvalidArgument("row gradient of `{}`: its rows have {} values, those of the table {}",
                          name, gradient.values.size(1), width);
  }
  if (!gradient.rows.is_contiguous() || !gradient.values.is_contiguous()) {
    throw InvalidArgument("row gradient of `{}`: must be contiguous", name);
  }
  check_range(gradient.rows, row_count, name);
  if (!gradient.rows.is_cpu()) return;
  const auto rows = as_span(gradient.rows);
  if (std::ranges::adjacent_find(rows, std::greater_equal<>()) != rows.end()) {
    throw InvalidArgument("row gradient of `{}`: rows must be sorted and each named once", name);
  }
}

}  // namespace muster
