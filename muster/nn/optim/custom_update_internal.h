#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "muster/nn/model/row_gradient.h"
#include "muster/nn/optim/optimizer.h"
#include "muster/nn/optim/updater.h"

/// Updates by CustomOptions::update, of variables on any device.
namespace muster::internal {

/// One step of such an optimizer.
struct CustomRule {
  const CustomOptions& options;
  double learning_rate = 0;
  std::int64_t step = 0;
  double rate_share = 0;
};

/// Elements `range` of flat values, with as many gradients and slots.
void custom_update(const CustomRule& rule, const at::Tensor& values, const at::Tensor& gradients,
                   std::span<const at::Tensor> slots, const FlatRange& range);

/// One variable that CustomOptions::whole_variables is for.
void custom_update_whole(const CustomRule& rule, const Variable& variable,
                         const at::Tensor& gradients, std::span<const at::Tensor> slots);

/// Only the named rows of `values` and `slots` change.
void custom_update_rows(const CustomRule& rule, const RowGradient& gradient,
                        const at::Tensor& values, std::span<const at::Tensor> slots);

}  // namespace muster::internal
