#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/nn/kernels/inference_convolution.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/window_internal.h"

namespace muster::executor {

/// Weights that were laid out while a model was loaded, for its signatures to share.
class LaidOutLayers {
 public:
  using Layer = std::shared_ptr<const kernels::InferenceConvolution>;

  template <typename Make>
  Layer get(const std::string& key, const Make& make) {
    Layer& layer = layers_[key];
    if (!layer) layer = make();
    return layer;
  }

 private:
  std::map<std::string, Layer> layers_;
};

/// A node that became a part of a fused one.
struct FusedNode {
  std::string name{};
  std::string op{};
  Kernel kernel{};
  /// Numbers of the fused node's inputs; kPrevious is what the node before gives.
  std::vector<std::size_t> inputs{};
  static constexpr std::size_t kPrevious = static_cast<std::size_t>(-1);
};

/// Runs them one after another, and gives the first output of the last. Errors name the node.
Slots run_nodes(std::span<const FusedNode> nodes, const Inputs& inputs);

/// A Conv2D or MatMul with constant weights, and what follows it: bias, batch norm, a sum with
/// another tensor, ReLU.
struct FusedLayer {
  /// In their order. They compute what our kernel does not take: other types, ranks, sizes.
  std::vector<FusedNode> nodes{};
  /// Which of them is the Conv2D or MatMul: errors name it.
  std::size_t main = 0;
  LaidOutLayers::Layer weights{};
  /// Window of a Conv2D.
  std::optional<Window> window{};
  std::vector<std::int64_t> filter_sizes{};
  /// Padding that a Pad before it adds above, below, left and right.
  std::optional<std::vector<std::int64_t>> padding{};
  bool relu = false;
  /// The numbers of the inputs that are the images or rows, and the tensor that is added.
  std::size_t images = 0;
  std::optional<std::size_t> addend{};
};

/// Errors name the node that they come from.
Kernel fused_layer_kernel(std::shared_ptr<const FusedLayer> layer);

}  // namespace muster::executor
