#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <tuple>

namespace muster::kernels {

/// Whether the two functions below take this input: float32 on the CPU, contiguous, [batch,
/// channels] or [batch, channels, ...], at least one value a channel.
bool batch_norm_takes(const at::Tensor& input);

/// Batch normalisation in training: the output, the mean and 1 / sqrt(variance + epsilon) of every
/// channel. `weight`, `bias` and the running statistics may be undefined; the latter are updated.
/// The bits are the same for any number of threads.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(const at::Tensor& input,
                                                          const at::Tensor& weight,
                                                          const at::Tensor& bias,
                                                          const at::Tensor& running_mean,
                                                          const at::Tensor& running_variance,
                                                          double momentum, double epsilon);

/// The gradients of input, weight and bias, those that are wanted.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm_backward(
    const at::Tensor& output_gradient, const at::Tensor& input, const at::Tensor& weight,
    const at::Tensor& mean, const at::Tensor& inverse_deviation, std::array<bool, 3> wanted);

}  // namespace muster::kernels
