#include "muster/nn/model/row_gradient.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/model/table_kernels_internal.h"

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

void check_extremes(std::int64_t lowest, std::int64_t highest, std::int64_t row_count,
                    std::string_view name) {
  if (lowest < 0 || highest >= row_count) {
    throw OutOfRange("row gradient of `{}`: row {} is not in [0, {})", name,
                     lowest < 0 ? lowest : highest, row_count);
  }
}

void check_range(const at::Tensor& rows, std::int64_t row_count, std::string_view name) {
  if (rows.numel() == 0) return;
  if (rows.is_cpu() && rows.is_contiguous()) {
    const auto extremes = std::ranges::minmax(as_span(rows));
    check_extremes(extremes.min, extremes.max, row_count, name);
  } else {
    check_extremes(rows.min().item<std::int64_t>(), rows.max().item<std::int64_t>(), row_count,
                   name);
  }
}

RowGradient sum_rows_on_cpu(const at::Tensor& rows, const at::Tensor& values,
                            std::int64_t row_count) {
  const auto width = values.size(1);
  const float* value = values.data_ptr<float>();
  std::vector<internal::RowTerm> terms;
  terms.reserve(static_cast<std::size_t>(rows.numel()));
  for (const std::int64_t row : as_span(rows)) {
    terms.push_back({.row = row, .gradient = value});
    value += width;
  }
  internal::RowSum sum;
  RowGradient result =
      empty_row_gradient(static_cast<std::int64_t>(sum.plan(terms, row_count)), width);
  sum.write(static_cast<std::size_t>(width), result.rows.data_ptr<std::int64_t>(),
            result.values.data_ptr<float>());
  return result;
}

std::int64_t count_of_union(std::span<const std::int64_t> left,
                            std::span<const std::int64_t> right) {
  auto count = static_cast<std::int64_t>(left.size() + right.size());
  for (std::size_t l = 0, r = 0; l < left.size() && r < right.size();) {
    const std::int64_t a = left[l];
    const std::int64_t b = right[r];
    count -= a == b;
    l += a <= b;
    r += b <= a;
  }
  return count;
}

// Both are walked once, since both are sorted.
RowGradient merge_on_cpu(const RowGradient& left, const RowGradient& right) {
  const auto left_rows = as_span(left.rows);
  const auto right_rows = as_span(right.rows);
  const auto width = left.values.size(1);
  RowGradient sum = empty_row_gradient(count_of_union(left_rows, right_rows), width);
  auto* row = sum.rows.data_ptr<std::int64_t>();
  auto* value = sum.values.data_ptr<float>();
  const float* left_value = left.values.data_ptr<float>();
  const float* right_value = right.values.data_ptr<float>();
  std::size_t l = 0;
  std::size_t r = 0;
  for (; l < left_rows.size() || r < right_rows.size(); ++row, value += width) {
    const bool take_left =
        r == right_rows.size() || (l < left_rows.size() && left_rows[l] <= right_rows[r]);
    const bool take_right =
        l == left_rows.size() || (r < right_rows.size() && right_rows[r] <= left_rows[l]);
    *row = take_left ? left_rows[l] : right_rows[r];
    if (take_left && take_right) {
      for (std::int64_t k = 0; k < width; ++k) value[k] = left_value[k] + right_value[k];
    } else {
      std::copy_n(take_left ? left_value : right_value, width, value);
    }
    if (take_left) {
      ++l;
      left_value += width;
    }
    if (take_right) {
      ++r;
      right_value += width;
    }
  }
  return sum;
}

}  // namespace

RowGradient empty_row_gradient(std::int64_t count, std::int64_t width) {
  return {at::Tensor(at::detail::empty_cpu({count}, at::kLong)),
          at::Tensor(at::detail::empty_cpu({count, width}, at::kFloat))};
}

RowGradient sum_rows(const at::Tensor& rows, const at::Tensor& values, std::int64_t row_count,
                     std::string_view name) {
  check_shapes(rows, values, name);
  check_range(rows, row_count, name);
  if (rows.is_cpu()) return sum_rows_on_cpu(rows.contiguous(), values.contiguous(), row_count);
  const at::Tensor sum =
      at::sparse_coo_tensor(rows.unsqueeze(0), values, {row_count, values.size(1)}).coalesce();
  return {sum.indices().squeeze(0), sum.values()};
}

RowGradient add_rows(const RowGradient& left, const RowGradient& right) {
  if (left.empty()) return right;
  if (right.empty()) return left;
  if (left.values.size(1) != right.values.size(1)) {
    throw InvalidArgument("row gradients of {} and {} values a row cannot be added",
                          left.values.size(1), right.values.size(1));
  }
  if (left.rows.is_cpu()) return merge_on_cpu(left, right);
  const at::Tensor rows = at::cat({left.rows, right.rows});
  return sum_rows(rows, at::cat({left.values, right.values}), rows.max().item<std::int64_t>() + 1,
                  "a sum of two");
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
