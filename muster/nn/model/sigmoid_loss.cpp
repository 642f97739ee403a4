#include <ATen/core/Reduction.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/types.h>

#include <cmath>
#include <memory>
#include <string>

#include "muster/nn/model/graph_node_internal.h"
#include "muster/nn/model/sigmoid_loss_internal.h"

namespace muster::internal {
namespace {

using torch::autograd::variable_list;

struct SigmoidLossBackward : public torch::autograd::Node {
  /// d loss / d logits.
  at::Tensor gradient;

  std::string name() const override { return "MusterSigmoidLossBackward"; }
  void release_variables() override { gradient.reset(); }
  variable_list apply(variable_list&& output_gradients) override {
    if (!output_gradients[0].defined()) return {at::Tensor()};
    return {gradient * output_gradients[0]};
  }
};

bool takes(const at::Tensor& logits, const at::Tensor& targets, std::int64_t reduction) {
  return reduction != at::Reduction::None && logits.numel() > 0 && is_plain(logits) &&
         is_plain(targets) && logits.sizes() == targets.sizes() && !targets.requires_grad() &&
         !torch::jit::tracer::isTracing();
}

}  // namespace

at::Tensor sigmoid_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                 std::int64_t reduction) {
  if (!takes(logits, targets, reduction)) {
    return at::binary_cross_entropy_with_logits(logits, targets, {}, {}, reduction);
  }
  const bool needs_gradient = at::GradMode::is_enabled() && logits.requires_grad();
  const std::int64_t count = logits.numel();
  const float scale = reduction == at::Reduction::Mean ? 1.0F / static_cast<float>(count) : 1.0F;
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  at::Tensor gradient = needs_gradient ? at::empty(logits.sizes(), logits.options()) : at::Tensor();
  const float* const x = logits.data_ptr<float>();
  const float* const z = targets.data_ptr<float>();
  float* const slope = needs_gradient ? gradient.data_ptr<float>() : nullptr;
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float small = std::exp(-std::abs(x[i]));
    sum += std::max(x[i], 0.0F) - x[i] * z[i] + std::log1p(small);
    if (slope != nullptr) {
      const float probability = (x[i] >= 0 ? 1.0F : small) / (1.0F + small);
      slope[i] = (probability - z[i]) * scale;
    }
  }
  const double loss = reduction == at::Reduction::Mean ? sum / static_cast<double>(count) : sum;
  at::Tensor result = at::empty({}, logits.options());
  *result.data_ptr<float>() = static_cast<float>(loss);
  if (needs_gradient) {
    auto node = std::make_unique<SigmoidLossBackward>();
    node->gradient = std::move(gradient);
    set_node(result, std::move(node), {edge_of(logits)});
  }
  return result;
}

}  // namespace muster::internal
