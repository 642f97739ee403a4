#pragma once

#include "muster/nn/kernels/residual_unit.h"

// The functions of residual_unit.h for images whose channels lie side by side: a vector register
// holds channels of a pixel, in sums and elsewhere, so that neither rows' ends nor borders cost
// any of it.

namespace muster::kernels::channels_last {

/// Whether the tensor is in this order and in no other.
bool is_in_order(const at::Tensor& images);

/// Whether a unit takes images of this size; a layer takes any number of channels.
bool takes(const at::Tensor& input, std::int64_t outputs, std::int64_t stride);
bool layer_takes(const at::Tensor& input, std::int64_t outputs);

LayerForward normalised_layer(const at::Tensor& input, const NormalisedConvolution& layer);
LayerBackward normalised_layer_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                        const LayerForward& forward,
                                        const NormalisedConvolution& layer,
                                        bool input_gradient_wanted);
UnitForward residual_unit(const at::Tensor& input, const NormalisedConvolution& first,
                          const NormalisedConvolution& second, std::int64_t stride);
UnitBackward residual_unit_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                    const UnitForward& forward, const NormalisedConvolution& first,
                                    const NormalisedConvolution& second, std::int64_t stride);

}  // namespace muster::kernels::channels_last
