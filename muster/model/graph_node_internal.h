#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <utility>

namespace muster::internal {

/// Makes `output` the outcome of `node` in libtorch's graph; what the node's apply() returns goes
/// along `edges`.
inline void set_node(at::Tensor& output, std::unique_ptr<torch::autograd::Node> node,
                     torch::autograd::edge_list edges) {
  // libtorch's own deleter, which takes a deep graph apart without recursion.
  const std::shared_ptr<torch::autograd::Node> shared(node.release(), torch::autograd::deleteNode);
  shared->set_next_edges(std::move(edges));
  torch::autograd::set_history(output, shared);
}

/// Where the gradient of a parameter goes.
inline torch::autograd::Edge edge_of(const at::Tensor& parameter) {
  return torch::autograd::impl::gradient_edge(parameter);
}

}  // namespace muster::internal
