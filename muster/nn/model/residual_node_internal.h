#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "muster/nn/kernels/residual_unit.h"

namespace muster::internal {

/// Whether the two functions below take this input and these layers: where muster's CPU kernels are
/// in use, and neither tracing nor autocast wants to see libtorch's own operations.
bool residual_node_takes(const at::Tensor& input, std::int64_t stride,
                         const std::vector<kernels::NormalisedConvolution>& layers);

/// Whether they take images whose channels lie side by side, and no others.
bool residual_nodes_want_channels_last();

/// kernels::normalised_layer() as one node of libtorch's graph.
at::Tensor normalised_layer_node(const at::Tensor& input,
                                 const kernels::NormalisedConvolution& layer);

/// kernels::residual_unit() as one node of libtorch's graph.
at::Tensor residual_unit_node(const at::Tensor& input, const kernels::NormalisedConvolution& first,
                              const kernels::NormalisedConvolution& second, std::int64_t stride);

}  // namespace muster::internal
