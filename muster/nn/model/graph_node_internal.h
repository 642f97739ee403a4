#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "muster/nn/kernels/operations_scope.h"

namespace muster::internal {

/// libtorch's pointer to a node: std::shared_ptr, in its newest versions c10::intrusive_ptr.
using NodePointer = decltype(torch::autograd::Edge::function);

template <typename Pointer, typename Node>
Pointer shared_node(Node* node) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<Node>>) {
    // libtorch's own deleter, which takes a deep graph apart without recursion.
    return Pointer(node, [](auto* last) { deleteNode(last); });
  } else {
    return Pointer::unsafe_steal_from_new(node);
  }
}

/// Makes `output` the outcome of `node` in libtorch's graph; what the node's apply() returns goes
/// along `edges`.
inline void set_node(at::Tensor& output, std::unique_ptr<torch::autograd::Node> node,
                     torch::autograd::edge_list edges) {
  const auto shared = shared_node<NodePointer>(node.release());
  shared->set_next_edges(std::move(edges));
  torch::autograd::set_history(output, shared);
}

/// Whether a kernel of ours may read this tensor's memory as it is: contiguous float32 on the CPU
/// (or in the given order), without a forward-mode derivative, outside of an OperationsScope.
inline bool is_plain(const at::Tensor& tensor,
                     at::MemoryFormat order = at::MemoryFormat::Contiguous) {
  return !kernels::wants_operations() && tensor.device().is_cpu() &&
         tensor.scalar_type() == at::kFloat && tensor.is_contiguous(order) &&
         !tensor._fw_grad(0).defined();
}

/// Where the gradient of a parameter goes.
inline torch::autograd::Edge edge_of(const at::Tensor& parameter) {
  return torch::autograd::impl::gradient_edge(parameter);
}

}  // namespace muster::internal
