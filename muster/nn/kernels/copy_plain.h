#pragma once

#include <ATen/core/Tensor.h>

#include <cstring>

#include "muster/nn/kernels/operations_scope.h"

namespace muster::kernels {

/// Copies a tensor on the CPU to one of its type and shape, both contiguous, past libtorch's
/// dispatcher, which takes longer to begin a small copy than to make it. False, with nothing done,
/// where they are others,
/// and in an OperationsScope.
inline bool copy_plain(const at::Tensor& from, const at::Tensor& to) {
  const bool is_plain = !wants_operations() && from.is_cpu() && to.is_cpu() &&
                        from.layout() == at::kStrided && to.layout() == at::kStrided &&
                        from.scalar_type() == to.scalar_type() && from.is_contiguous() &&
                        to.is_contiguous() && from.sizes() == to.sizes();
  if (is_plain && from.numel() > 0) std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes());
  return is_plain;
}

}  // namespace muster::kernels
