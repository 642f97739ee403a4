#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/nn/model/gradient_listener.h"
#include "muster/nn/model/graph_node_internal.h"
#include "muster/nn/model/residual_network_node_internal.h"

namespace muster::internal {
namespace {

using kernels::ResidualNetwork;
using kernels::ResidualNetworkForward;
using kernels::ResidualNetworkGradients;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// The order of the node's inputs: weight, gamma and beta of every layer, then kernel and bias.
variable_list parameters_of(const ResidualNetwork& network) {
  variable_list parameters;
  for (const auto& layer : network.layers) {
    parameters.insert(parameters.end(), {layer.weight, layer.gamma, layer.beta});
  }
  parameters.insert(parameters.end(), {network.kernel, network.bias});
  return parameters;
}

ResidualNetworkGradients gradients_from(const variable_list& in_order) {
  ResidualNetworkGradients gradients;
  for (std::size_t i = 0; i + 2 < in_order.size(); i += 3) {
    gradients.layers.push_back(
        {.weight = in_order[i], .gamma = in_order[i + 1], .beta = in_order[i + 2]});
  }
  gradients.kernel = in_order[in_order.size() - 2];
  gradients.bias = in_order[in_order.size() - 1];
  return gradients;
}

// Whether a gradient can be added to where libtorch would add it anyway.
bool has_plain_gradient(const at::Tensor& parameter) {
  if (!parameter.is_leaf() || !parameter.grad().defined()) return false;
  const at::Tensor& gradient = parameter.grad();
  return gradient.scalar_type() == at::kFloat && gradient.is_contiguous() &&
         gradient.device() == parameter.device() && !gradient.requires_grad();
}

class NetworkNode : public torch::autograd::Node {
 public:
  NetworkNode(const at::Tensor& images, const ResidualNetwork& network,
              ResidualNetworkForward forward)
      : images_(images),
        network_(network),
        forward_(std::move(forward)),
        listener_(GradientScope::current()) {
    // So that libtorch notices when they change before the way back.
    for (const auto& parameter : parameters_of(network)) saved_.emplace_back(parameter, false);
  }

  std::string name() const override { return "MusterResidualNetworkBackward"; }

  void release_variables() override {
    for (auto& saved : saved_) saved.reset_data();
    forward_ = {};
    network_ = {};
    images_ = at::Tensor();
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list returned(saved_.size());
    if (!gradients[0].defined()) return returned;
    check_use();
    variable_list targets;
    // Those whose gradients are written here, as the layers have them.
    std::vector<at::Tensor> written(saved_.size());
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      const at::Tensor parameter = saved_[i].unpack();
      if (has_plain_gradient(parameter)) {
        targets.push_back(parameter.grad());
        written[i] = parameter;
      } else {
        targets.push_back(at::zeros(parameter.sizes(), parameter.options()));
        returned[i] = targets.back();
      }
    }
    const at::AutoDispatchBelowADInplaceOrView no_graph;
    kernels::add_residual_network_gradients(gradients[0].to(at::kFloat).contiguous(), images_,
                                            forward_, network_, gradients_from(targets),
                                            [&](std::size_t first) { tell(written, 3 * first); });
    return returned;
  }

 private:
  void check_use() {
    if (at::GradMode::is_enabled()) {
      throw Unimplemented(
          "the fused residual network has no second derivatives: set "
          "ResNetOptions::fused to false");
    }
    if (std::exchange(used_, true)) {
      throw FailedPrecondition(
          "the fused residual network goes back once for a forward: set "
          "ResNetOptions::fused to false to keep the graph");
    }
  }

  // Those from one on are written, and are not told of again.
  void tell(std::vector<at::Tensor>& written, std::size_t from) {
    if (listener_ == nullptr) return;
    for (std::size_t i = from; i < written.size(); ++i) {
      if (written[i].defined()) listener_->added_gradient(std::exchange(written[i], {}));
    }
  }

  at::Tensor images_;
  ResidualNetwork network_;
  ResidualNetworkForward forward_;
  std::vector<SavedVariable> saved_;
  GradientListener* listener_;
  bool used_ = false;
};

}  // namespace

bool residual_network_node_takes(const at::Tensor& images, const ResidualNetwork& network) {
  return images.is_cuda() && !images.requires_grad() && !torch::jit::tracer::isTracing() &&
         compat::autocast_type(at::kCUDA) == at::kBFloat16 &&
         kernels::residual_network_takes(images, network);
}

at::Tensor residual_network_node(const at::Tensor& images, const ResidualNetwork& network) {
  const variable_list parameters = parameters_of(network);
  const bool wanted = at::GradMode::is_enabled() &&
                      std::any_of(parameters.begin(), parameters.end(),
                                  [](const at::Tensor& p) { return p.requires_grad(); });
  auto forward = [&] {
    const at::AutoDispatchBelowADInplaceOrView no_graph;
    return kernels::residual_network(images, network);
  }();
  at::Tensor logits = std::move(forward.logits);
  if (!wanted) return logits;
  set_node(logits, std::make_unique<NetworkNode>(images, network, std::move(forward)),
           torch::autograd::collect_next_edges(parameters));
  return logits;
}

}  // namespace muster::internal
