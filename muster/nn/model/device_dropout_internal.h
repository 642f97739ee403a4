#pragma once

#include <ATen/core/Tensor.h>

#include "muster/nn/model/cuda_dropout_internal.h"

namespace muster::internal {

/// Fills a uint8 tensor on a GPU, on the calling thread's stream: see cuda_dropout_mask(). False,
/// with nothing done, where there is no CUDA.
bool fill_dropout_mask(const DropoutDraw& draw, std::uint32_t dropped_of_65536,
                       const at::Tensor& mask);

}  // namespace muster::internal
