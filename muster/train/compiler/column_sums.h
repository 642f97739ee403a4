#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/train/compiler/graph.h"
#include "muster/train/compiler/program_builder.h"

namespace muster::compiler {

/// A tensor as rows and columns of what is in memory.
struct Matrix {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
};

/// Where the innermost dimensions as they lie are `kept`, and all others rows.
std::optional<Matrix> matrix_of(const Geometry& geometry, const std::vector<bool>& kept);

/// Strides of one element for every column.
inline const std::vector<std::int64_t> kOfColumn{0, 1};
/// Strides of one element for every row.
inline const std::vector<std::int64_t> kOfRow{1, 0};

/// Blocks of rows that kColumnSums adds up by themselves: enough work for a large GPU, and a number
/// that depends on nothing but the sizes.
std::int64_t row_blocks(const Matrix& matrix);

/// The result of kColumnSums.
ValueId new_partials(Graph& graph, const Matrix& matrix, std::int64_t sums, c10::Device device);

}  // namespace muster::compiler
