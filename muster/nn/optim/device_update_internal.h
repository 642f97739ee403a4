#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "muster/nn/model/row_gradient.h"
#include "muster/nn/optim/update_rule_internal.h"

/// The updates of flat_kernels_internal.h through ATen, for any device: a few operations over a
/// whole flat range. Results may differ from the CPU's in the last bits.
namespace muster::internal {

void device_update(const UpdateRule& rule, const at::Tensor& values, const at::Tensor& gradients,
                   std::span<const at::Tensor> slots);

/// Only the named rows of `values` and `slots` change.
void device_update_rows(const UpdateRule& rule, const RowGradient& gradient,
                        const at::Tensor& values, std::span<const at::Tensor> slots);

}  // namespace muster::internal
