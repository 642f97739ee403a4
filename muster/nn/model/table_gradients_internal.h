#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/nn/model/row_gradient.h"
#include "muster/nn/model/table_kernels_internal.h"

namespace muster::internal {

/// Gradients that backwards leave for SparseTables::take_row_gradients(). A module shares them
/// with the nodes of its graphs.
class TableGradients {
 public:
  explicit TableGradients(std::size_t tables) : pending_(tables) {}

  /// Adds the terms, in their order, to the gradient of a table [row_count, width].
  void add(std::size_t table, std::span<const RowTerm> terms, std::int64_t row_count,
           std::int64_t width);
  std::vector<RowGradient> take();

  /// Empty memory for terms, kept from one use to the next.
  std::vector<RowTerm>& scratch();

 private:
  std::vector<RowGradient> pending_;
  std::vector<RowTerm> scratch_;
  RowSum sum_;
};

}  // namespace muster::internal
