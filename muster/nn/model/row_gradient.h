#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace muster {

/// The gradient of a table [rows, width] that a step touched in a few rows only.
struct RowGradient {
  /// int64 [n], sorted, each once. Undefined, like `values`, when no row was touched.
  at::Tensor rows{};
  /// float32 [n, width].
  at::Tensor values{};

  bool empty() const { return !rows.defined() || rows.numel() == 0; }
};

/// Memory for `count` rows on the CPU, not filled.
RowGradient empty_row_gradient(std::int64_t count, std::int64_t width);

/// Sums the values of equal rows in the order in which they come, which is that of the batch.
/// `rows` is int64 [n] and `values` float32 [n, width]. Throws OutOfRange when a row is not below
/// `row_count`; `name` is the table's, for the message.
RowGradient sum_rows(const at::Tensor& rows, const at::Tensor& values, std::int64_t row_count,
                     std::string_view name);

/// The sum of two gradients of one table: left + right where both touched a row, else as it is.
/// May share memory with either. Throws InvalidArgument when their widths differ.
RowGradient add_rows(const RowGradient& left, const RowGradient& right);

/// Throws InvalidArgument, naming the table, unless this is a gradient of a float32 table
/// [row_count, width].
void check_row_gradient(const RowGradient& gradient, std::int64_t row_count, std::int64_t width,
                        std::string_view name);

}  // namespace muster
