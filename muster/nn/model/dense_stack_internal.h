#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace muster::internal {

/// Dense layers one after the other, with relu between them.
struct DenseStack {
  /// [inputs, units] and [units] of each layer; a bias may be undefined.
  std::vector<at::Tensor> kernels{};
  std::vector<at::Tensor> biases{};
  /// Also after the last layer.
  bool relu_at_end = false;
};

/// Whether dense_stack() takes this input here: float32 on the CPU, outside of a trace, an autocast
/// scope or forward-mode derivatives, which want libtorch's operations.
bool dense_stack_takes(const at::Tensor& input, const DenseStack& stack);

/// [batch, inputs] to [batch, units of the last], as one node of the autograd graph: no transposed
/// copies and no intermediate tensors. Gradients have no gradients.
at::Tensor dense_stack(const at::Tensor& input, const DenseStack& stack);

}  // namespace muster::internal
