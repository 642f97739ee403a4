#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace muster::kernels {

/// The largest of each two by two values of float32 [batch, channels, height, width] on the CPU, an
/// odd last row or column left out, and where in its plane it lies (int64), as libtorch's
/// max_pool2d_with_indices: the first of equals, and NaN above all. `input` is contiguous.
std::tuple<at::Tensor, at::Tensor> max_pool_2x2(const at::Tensor& input);

}  // namespace muster::kernels
