#pragma once

#include <ATen/core/Tensor.h>

#include "muster/nn/kernels/residual_network.h"

namespace muster::internal {

/// Whether the function below takes them: what kernels::residual_network takes, under autocast to
/// bf16, with no gradient wanted of the images.
bool residual_network_node_takes(const at::Tensor& images, const kernels::ResidualNetwork& network);

/// The logits of a whole network in training as one node of libtorch's graph. Gradients of
/// parameters that already have a gradient of float32 are added to it in place.
at::Tensor residual_network_node(const at::Tensor& images, const kernels::ResidualNetwork& network);

}  // namespace muster::internal
