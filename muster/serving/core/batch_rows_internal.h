#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "muster/serving/core/servable.h"

/// Rows of tensors: requests of the same shapes are stacked to a batch, and its answers cut again.
namespace muster::serving {

/// The rows of one input or output; nothing for a scalar.
std::optional<std::int64_t> rows_in(const graph::TensorValue& tensor);

bool can_be_joined(const Tensors& a, const Tensors& b);

/// Elements of one kind that a row has.
template <typename Elements>
std::size_t elements_per_row(const Elements& elements, std::int64_t rows) {
  return rows == 0 ? 0 : elements.size() / static_cast<std::size_t>(rows);
}

/// Rows of a tensor that is not needed any more; its strings are moved.
graph::TensorValue taken_rows(graph::TensorValue& tensor, std::int64_t begin, std::int64_t end);

void repeat_first_row(graph::TensorValue& tensor, std::int64_t times);

}  // namespace muster::serving
