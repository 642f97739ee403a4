#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace muster::kernels {

// Parts of a residual network in training, for float32 [batch, channels, height, width] on the CPU,
// contiguous or channels last; results are in the order of the input. Normalisation, ReLU and the
// sum with the shortcut have no passes over memory of their own where that can be: they are done
// while a convolution reads or writes an image. The bits are the same for any number of threads.

/// A 3x3 convolution without a bias, with one pixel of zeros around the image, and the batch norm
/// after it.
struct NormalisedConvolution {
  /// [outputs, channels, 3, 3], contiguous, as are the others, which are [outputs].
  at::Tensor weight{};
  at::Tensor gamma{};
  at::Tensor beta{};
  /// Updated by the forward.
  at::Tensor running_mean{};
  at::Tensor running_variance{};
  double momentum = 0.1;
  double epsilon = 1e-5;
};

/// Values of a forward pass that the backward pass needs.
struct NormalisedImages {
  /// The convolution's result, not normalised.
  at::Tensor convolved{};
  at::Tensor mean{};
  /// 1 / sqrt(variance + epsilon).
  at::Tensor inverse_deviation{};
};

struct NormalisedGradients {
  at::Tensor weight{};
  at::Tensor gamma{};
  at::Tensor beta{};
};

/// Whether residual_unit() takes images of this tensor's type, size and order in memory with such a
/// stride: 1, or 2 where height and width are even. Contiguous ones have a width that is a multiple
/// of 4, others as many channels as fill vectors of this processor.
bool residual_unit_takes(const at::Tensor& input, std::int64_t outputs, std::int64_t stride);
/// Whether normalised_layer() does.
bool normalised_layer_takes(const at::Tensor& input, std::int64_t outputs);

/// relu(norm(convolution(input))), with a stride of 1.
struct LayerForward {
  at::Tensor output{};
  NormalisedImages layer{};
};
LayerForward normalised_layer(const at::Tensor& input, const NormalisedConvolution& layer);

struct LayerBackward {
  /// Undefined where it is not wanted.
  at::Tensor input{};
  NormalisedGradients layer{};
};
LayerBackward normalised_layer_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                        const LayerForward& forward,
                                        const NormalisedConvolution& layer,
                                        bool input_gradient_wanted);

/// relu(norm(second(relu(norm(first(input))))) + shortcut(input)). Where `second` has more channels
/// than the input, the shortcut is the input with zeros for the missing ones, half of them in
/// front; `stride` is that of `first`, and with 2 the shortcut is the mean of two by two pixels.
struct UnitForward {
  at::Tensor output{};
  NormalisedImages first{};
  NormalisedImages second{};
};
UnitForward residual_unit(const at::Tensor& input, const NormalisedConvolution& first,
                          const NormalisedConvolution& second, std::int64_t stride);

struct UnitBackward {
  at::Tensor input{};
  NormalisedGradients first{};
  NormalisedGradients second{};
};
UnitBackward residual_unit_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                    const UnitForward& forward, const NormalisedConvolution& first,
                                    const NormalisedConvolution& second, std::int64_t stride);

}  // namespace muster::kernels
