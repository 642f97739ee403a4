#include <torch/types.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/nn/model/class_loss_internal.h"
#include "muster/nn/model/sigmoid_loss_internal.h"

namespace muster::internal {
namespace {

// The power of a focal loss has no gradient at 0.
constexpr double kLeastWrong = 1e-12;

at::Tensor reduced(const at::Tensor& loss, std::int64_t reduction) {
  if (reduction == at::Reduction::Sum) return loss.sum();
  return reduction == at::Reduction::Mean ? loss.mean() : loss;
}

}  // namespace

ClassLoss::ClassLoss(const HeadOptions& options, std::int64_t classes, std::string_view head)
    : smoothing_(options.label_smoothing),
      gamma_(options.focal_gamma),
      weights_(options.class_weights) {
  if (!(smoothing_ >= 0 && smoothing_ < 1)) {
    throw InvalidArgument("{}: label_smoothing must be in [0, 1): {}", head, smoothing_);
  }
  if (!(gamma_ >= 0 && std::isfinite(gamma_))) {
    throw InvalidArgument("{}: focal_gamma must be finite and not negative: {}", head, gamma_);
  }
  if (!weights_.empty() && static_cast<std::int64_t>(weights_.size()) != classes) {
    throw InvalidArgument("{}: there are {} class_weights for {} classes: give one per class", head,
                          weights_.size(), classes);
  }
  for (const double weight : weights_) {
    if (weight >= 0 && std::isfinite(weight)) continue;
    throw InvalidArgument("{}: class_weights must be finite and not negative: {}", head, weight);
  }
}

at::Tensor ClassLoss::focused(const at::Tensor& loss, const at::Tensor& wrong) const {
  return gamma_ == 0 ? loss : loss * wrong.clamp_min(kLeastWrong).pow(gamma_);
}

at::Tensor ClassLoss::weights_on(const at::Tensor& like) const {
  const std::lock_guard lock(mutex_);
  for (const auto& made : made_weights_) {
    if (made.device() == like.device() && made.scalar_type() == like.scalar_type()) return made;
  }
  made_weights_.push_back(
      torch::tensor(weights_, torch::kDouble).to(like.device(), like.scalar_type()));
  return made_weights_.back();
}

// Labels of 0 and 1 with a sigmoid each.
at::Tensor ClassLoss::of_each(const at::Tensor& logits, const at::Tensor& targets) const {
  const auto smoothed = smoothing_ == 0 ? targets : targets * (1.0 - smoothing_) + 0.5 * smoothing_;
  const auto loss = sigmoid_cross_entropy(logits, smoothed, at::Reduction::None);
  if (gamma_ == 0) return loss;
  const auto positive = logits.sigmoid();
  return focused(loss, targets * (1.0 - positive) + (1.0 - targets) * positive);
}

at::Tensor ClassLoss::binary(const at::Tensor& logits, const at::Tensor& targets,
                             std::int64_t reduction) const {
  if (is_plain()) return sigmoid_cross_entropy(logits, targets, reduction);
  const auto loss = of_each(logits, targets);
  if (weights_.empty()) return reduced(loss, reduction);
  const auto weights = targets * weights_[1] + (1.0 - targets) * weights_[0];
  return reduced(loss * weights, reduction);
}

at::Tensor ClassLoss::multi_class(const at::Tensor& logits, const at::Tensor& targets,
                                  std::int64_t reduction) const {
  if (is_plain()) {
    const auto loss = at::cross_entropy_loss(logits, targets, {}, reduction);
    return reduction == at::Reduction::None ? loss.unsqueeze(1) : loss;
  }
  auto loss = at::cross_entropy_loss(logits, targets, {}, at::Reduction::None,
                                     /*ignore_index=*/-100, smoothing_)
                  .unsqueeze(1);
  const auto labels = targets.unsqueeze(1);
  if (gamma_ != 0) loss = focused(loss, 1.0 - logits.softmax(1).gather(1, labels));
  if (!weights_.empty()) {
    loss = loss * weights_on(logits).index_select(0, targets).unsqueeze(1);
  }
  return reduced(loss, reduction);
}

at::Tensor ClassLoss::multi_label(const at::Tensor& logits, const at::Tensor& targets,
                                  std::int64_t reduction) const {
  if (is_plain()) {
    const auto loss = at::binary_cross_entropy_with_logits(logits, targets, {}, {}, reduction);
    if (reduction == at::Reduction::None) return loss.mean(1, /*keepdim=*/true);
    return reduction == at::Reduction::Sum ? loss / logits.size(1) : loss;
  }
  auto loss = of_each(logits, targets);
  if (!weights_.empty()) loss = loss * weights_on(logits);
  return reduced(loss.mean(1, /*keepdim=*/true), reduction);
}

}  // namespace muster::internal
