#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "muster/nn/model/row_gradient.h"

namespace muster {

/// A module with tables [rows, width] of which a batch touches a few rows. By default a backward
/// leaves their gradients where libtorch does, in grad(), as sparse tensors; code that updates
/// the tables by rows asks for the rows themselves, which takes microseconds less a table.
///
/// A module implements it beside torch::nn::Module. Calls come from the thread that runs forward
/// and backward.
class SparseTables {
 public:
  virtual ~SparseTables() = default;

  /// The tables that are trained, which are parameters of the module; always in the same order.
  virtual std::vector<at::Tensor> tables() const = 0;

  /// From now on a forward and backward on the CPU leaves the tables' gradients here, and grad() as
  /// it is. On other devices gradients still come in grad().
  virtual void keep_row_gradients() = 0;

  /// The sums of what backwards left since the last call, one for each of tables(); empty where no
  /// row was touched.
  virtual std::vector<RowGradient> take_row_gradients() = 0;
};

}  // namespace muster
