#include "muster/train/compiler/column_sums.h"

#include <algorithm>

namespace muster::compiler {

std::optional<Matrix> matrix_of(const Geometry& geometry, const std::vector<bool>& kept) {
  if (!geometry.is_dense() || !is_for_programs(geometry)) return std::nullopt;
  Matrix matrix;
  bool in_columns = true;
  const auto order = memory_order(geometry);
  for (std::size_t i = order.size(); i-- > 0;) {
    if (!kept[order[i]]) in_columns = false;
    if (kept[order[i]] && !in_columns) return std::nullopt;
    (in_columns ? matrix.columns : matrix.rows) *= geometry.sizes[order[i]];
  }
  return matrix;
}

std::int64_t row_blocks(const Matrix& matrix) {
  const std::int64_t groups = std::max<std::int64_t>(matrix.columns / 8, 1);
  const std::int64_t across = std::min<std::int64_t>(groups, 32);
  const std::int64_t wanted = 512 / std::max<std::int64_t>(groups / across, 1);
  const std::int64_t rows = 4 * std::max<std::int64_t>(256 / across, 1);
  return std::clamp<std::int64_t>(matrix.rows / rows, 1, std::max<std::int64_t>(wanted, 1));
}

ValueId new_partials(Graph& graph, const Matrix& matrix, std::int64_t sums, c10::Device device) {
  return graph.new_value(
      contiguous_geometry(at::kFloat, device, {sums, matrix.columns, row_blocks(matrix)}));
}

}  // namespace muster::compiler
