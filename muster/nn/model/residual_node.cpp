#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/nn/kernels/libtorch_kernels.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/nn/model/graph_node_internal.h"
#include "muster/nn/model/residual_node_internal.h"

namespace muster::internal {
namespace {

using kernels::NormalisedConvolution;
using kernels::NormalisedGradients;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// A layer's parameters, kept so that libtorch notices when they change before the way back.
struct SavedLayer {
  explicit SavedLayer(const NormalisedConvolution& layer)
      : weight(layer.weight, /*is_output=*/false),
        gamma(layer.gamma, false),
        beta(layer.beta, false) {}
  NormalisedConvolution unpack() const {
    return {.weight = weight.unpack(), .gamma = gamma.unpack(), .beta = beta.unpack()};
  }
  void reset() {
    weight.reset_data();
    gamma.reset_data();
    beta.reset_data();
  }

  SavedVariable weight, gamma, beta;
};

/// Common part of nodes whose inputs are the images, then weight, gamma and beta of every layer.
class ResidualNode : public torch::autograd::Node {
 public:
  ResidualNode(const at::Tensor& input, const std::vector<NormalisedConvolution>& layers)
      : input_(input, /*is_output=*/false), layers_(layers.begin(), layers.end()) {}

  void release_variables() override {
    input_.reset_data();
    for (auto& layer : layers_) layer.reset();
    release_results();
  }

 protected:
  virtual void release_results() = 0;

  at::Tensor input() const { return input_.unpack(); }
  NormalisedConvolution layer(std::size_t i) const { return layers_[i].unpack(); }

  // The order of the node's inputs.
  static variable_list in_order(const at::Tensor& input,
                                const std::vector<NormalisedGradients>& layers) {
    variable_list result{input};
    for (const auto& layer : layers) {
      result.insert(result.end(), {layer.weight, layer.gamma, layer.beta});
    }
    return result;
  }
  // A gradient in the order in memory in which the kernels gave the output.
  static at::Tensor in_order_of(const at::Tensor& output, const at::Tensor& gradient) {
    return gradient.contiguous(output.suggest_memory_format());
  }
  variable_list no_gradients() const { return variable_list(1 + 3 * layers_.size()); }

 private:
  SavedVariable input_;
  std::vector<SavedLayer> layers_;
};

struct LayerNode : public ResidualNode {
  using ResidualNode::ResidualNode;
  kernels::LayerForward forward;

  std::string name() const override { return "MusterNormalisedLayerBackward"; }
  void release_results() override { forward = {}; }

  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) return no_gradients();
    const auto backward =
        kernels::normalised_layer_backward(in_order_of(forward.output, gradients[0]), input(),
                                           forward, layer(0), task_should_compute_output(0));
    return in_order(backward.input, {backward.layer});
  }
};

struct UnitNode : public ResidualNode {
  UnitNode(const at::Tensor& input, const std::vector<NormalisedConvolution>& layers,
           std::int64_t stride_)
      : ResidualNode(input, layers), stride(stride_) {}
  kernels::UnitForward forward;
  std::int64_t stride;

  std::string name() const override { return "MusterResidualUnitBackward"; }
  void release_results() override { forward = {}; }

  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) return no_gradients();
    const auto backward = kernels::residual_unit_backward(
        in_order_of(forward.output, gradients[0]), input(), forward, layer(0), layer(1), stride);
    return in_order(backward.input, {backward.first, backward.second});
  }
};

variable_list variables_of(const at::Tensor& input,
                           const std::vector<NormalisedConvolution>& layers) {
  variable_list variables{input};
  for (const auto& layer : layers) {
    variables.insert(variables.end(), {layer.weight, layer.gamma, layer.beta});
  }
  return variables;
}

bool is_plain_layer(const NormalisedConvolution& layer) {
  return is_plain(layer.weight) && is_plain(layer.gamma) && is_plain(layer.beta) &&
         is_plain(layer.running_mean) && is_plain(layer.running_variance);
}

// Runs `compute` outside of libtorch's graph and gives its output a node in it, where gradients are
// wanted.
template <typename Node, typename Compute, typename... Options>
at::Tensor with_node(const at::Tensor& input, const std::vector<NormalisedConvolution>& layers,
                     Compute compute, Options... options) {
  const variable_list variables = variables_of(input, layers);
  const bool wanted = at::GradMode::is_enabled() &&
                      std::any_of(variables.begin(), variables.end(),
                                  [](const at::Tensor& v) { return v.requires_grad(); });
  auto forward = [&] {
    const at::AutoDispatchBelowADInplaceOrView no_graph;
    return compute();
  }();
  at::Tensor output = forward.output;
  if (!wanted) return output;
  auto node = std::make_unique<Node>(input, layers, options...);
  // Another handle for the result: the node must not own the tensor that owns it.
  forward.output = output.detach();
  node->forward = std::move(forward);
  set_node(output, std::move(node), torch::autograd::collect_next_edges(variables));
  return output;
}

// The order in which nodes take their input, if there may be any.
std::optional<at::MemoryFormat> order_of_nodes() {
  const kernels::UnitOrder order = kernels::residual_unit_order();
  if (order == kernels::UnitOrder::kNone || kernels::wants_operations() ||
      torch::jit::tracer::isTracing() || compat::autocast_is_on_for_cpu()) {
    return std::nullopt;
  }
  return order == kernels::UnitOrder::kContiguous ? at::MemoryFormat::Contiguous
                                                  : at::MemoryFormat::ChannelsLast;
}

}  // namespace

bool residual_nodes_want_channels_last() {
  return order_of_nodes() == at::MemoryFormat::ChannelsLast;
}

bool residual_node_takes(const at::Tensor& input, std::int64_t stride,
                         const std::vector<NormalisedConvolution>& layers) {
  const auto order = order_of_nodes();
  if (!order || !is_plain(input, *order)) return false;
  const std::int64_t outputs = layers[0].weight.size(0);
  const bool takes = layers.size() == 1 ? kernels::normalised_layer_takes(input, outputs)
                                        : kernels::residual_unit_takes(input, outputs, stride);
  return takes && std::all_of(layers.begin(), layers.end(), is_plain_layer);
}

at::Tensor normalised_layer_node(const at::Tensor& input, const NormalisedConvolution& layer) {
  return with_node<LayerNode>(input, {layer},
                              [&] { return kernels::normalised_layer(input, layer); });
}

at::Tensor residual_unit_node(const at::Tensor& input, const NormalisedConvolution& first,
                              const NormalisedConvolution& second, std::int64_t stride) {
  return with_node<UnitNode>(
      input, {first, second}, [&] { return kernels::residual_unit(input, first, second, stride); },
      stride);
}

}  // namespace muster::internal
