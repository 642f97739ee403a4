#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace muster::internal {

/// Cross entropy of sigmoid(logits) and targets in [0, 1], of one shape, reduced as at::Reduction
/// says. The sum or mean of a float32 batch on the CPU is one pass that makes the gradient too;
/// anything else is libtorch's.
at::Tensor sigmoid_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                 std::int64_t reduction);

}  // namespace muster::internal
