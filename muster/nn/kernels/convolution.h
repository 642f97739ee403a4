#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <tuple>

namespace muster::kernels {

/// A two-dimensional convolution of float32 [batch, channels, height, width] on the CPU.
struct Convolution {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
};

/// `weight` is [outputs, channels, height, width]; `bias` may be undefined. Images are spread over
/// ATen's threads; the bits are the same for any number of them.
at::Tensor convolve(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                    const Convolution& convolution);

/// The gradients of input, weight and bias, those that are wanted; others are undefined.
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolve_backward(const at::Tensor& output_gradient,
                                                                 const at::Tensor& input,
                                                                 const at::Tensor& weight,
                                                                 const Convolution& convolution,
                                                                 std::array<bool, 3> wanted);

}  // namespace muster::kernels
