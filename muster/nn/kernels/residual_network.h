#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "muster/nn/kernels/residual_unit.h"

namespace muster::kernels {

// A whole residual network in training on a GPU: stem, three stages of units with 16, 32 and 64
// channels, the mean over the pixels, and a dense layer. Activations are bf16; sums, parameters and
// gradients float32. The same input gives the same bits. Nothing waits for the host, and everything
// can be captured in a CUDA graph.

struct ResidualNetwork {
  /// The stem, then two of every unit; epsilon and momentum are those of the first.
  std::vector<NormalisedConvolution> layers{};
  /// Number of batches that every layer's running statistics have seen: counted on.
  std::vector<at::Tensor> batches{};
  /// Parameters of the dense layer: [64, classes] and [classes].
  at::Tensor kernel{};
  at::Tensor bias{};
};

/// Whether the functions below take them: images [batch, 32, 32, 3] of bytes or float32 on a GPU
/// that there are kernels for, parameters of the right shapes there. Never in a build without CUDA.
bool residual_network_takes(const at::Tensor& images, const ResidualNetwork& network);

struct ResidualNetworkForward {
  /// float32 [batch, classes], on the current stream.
  at::Tensor logits{};
  /// Values that the backward pass needs; good for one.
  at::Tensor workspace{};
};
/// Pixels from 0 to 255 are brought to [-1, 1). Updates the running statistics.
ResidualNetworkForward residual_network(const at::Tensor& images, const ResidualNetwork& network);

struct ResidualNetworkGradients {
  std::vector<NormalisedGradients> layers{};
  at::Tensor kernel{};
  at::Tensor bias{};
};
/// Adds the gradients of all parameters to `to`: float32, contiguous, shaped like the parameters.
/// `written`, if any, is told, stage by stage, when those of all layers from one on and of the
/// dense layer are on their way; the stream that has them is the thread's meanwhile.
void add_residual_network_gradients(
    const at::Tensor& logits_gradient, const at::Tensor& images,
    const ResidualNetworkForward& forward, const ResidualNetwork& network,
    const ResidualNetworkGradients& to,
    const std::function<void(std::size_t first_layer)>& written = {});

}  // namespace muster::kernels
