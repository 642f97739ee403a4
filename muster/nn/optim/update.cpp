#include "muster/nn/optim/update.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

// The sum of x * 0 is 0 unless an element is infinite or NaN: one pass, no temporary mask.
bool has_only_finite(const at::Tensor& tensor) {
  return !tensor.defined() || tensor.numel() == 0 ||
         std::isfinite((tensor * 0.0F).sum().item<double>());
}

bool has_only_finite(const Gradients& gradients) {
  return has_only_finite(gradients.flat) &&
         std::ranges::all_of(gradients.rows,
                             [](const RowGradient& rows) { return has_only_finite(rows.values); });
}

void unscale(Gradients& gradients, double loss_scale) {
  if (loss_scale == 1.0) return;
  gradients.flat.div_(loss_scale);
  for (RowGradient& rows : gradients.rows) {
    if (!rows.empty()) rows.values = rows.values / loss_scale;
  }
}

}  // namespace

bool all_finite(std::span<const at::Tensor> losses) {
  return std::ranges::all_of(losses, [](const at::Tensor& loss) {
    if (!loss.defined()) return true;
    // There is one for every replica of the run: read without a dispatch.
    const bool is_plain = loss.is_cpu() && loss.scalar_type() == at::kFloat && loss.numel() == 1;
    return std::isfinite(is_plain ? *loss.data_ptr<float>() : loss.item<double>());
  });
}

HostUpdate::HostUpdate(const Variables& variables, Updater& updater, UpdateRules rules,
                       MovingAverage* average)
    : variables_(variables), updater_(updater), rules_(std::move(rules)), average_(average) {}

HostUpdate::HostUpdate(const Variables& variables, Updater& updater, UpdateRules rules,
                       const VariableShard& shard)
    : variables_(variables), updater_(updater), rules_(std::move(rules)), shard_(shard) {}

double HostUpdate::prepare(Gradients& gradients, double loss_scale) const {
  const torch::NoGradGuard no_grad;
  unscale(gradients, loss_scale);
  double decay_loss = 0;
  if (rules_.decays() && shard_) {
    add_weight_decay(variables_, gradients, rules_.weight_decay, shard_->parts);
  } else if (rules_.decays()) {
    decay_loss = add_weight_decay(variables_, gradients, rules_.weight_decay);
  }
  if (rules_.clip.value) clip_by_value(gradients, *rules_.clip.value);
  return decay_loss;
}

SquareSums HostUpdate::norms(const Gradients& gradients) const {
  SquareSums sums(variables_);
  if (shard_ && (rules_.clips_by_norm() || rules_.checks_gradients)) {
    for (const VariablePart& part : shard_->parts) sums.add(gradients, part);
  } else if (rules_.clips_by_norm()) {
    for (const VariablePart& part : variables_.whole()) sums.add(gradients, part);
  }
  return sums;
}

// An element that is not finite makes the norm so, and no others do: their squares fit a double.
bool HostUpdate::is_finite(const Gradients& gradients, const SquareSums& norms) const {
  if (!rules_.checks_gradients) return true;
  const bool are_all_here = gradients.flat.numel() == variables_.flat().numel();
  if (shard_ || !are_all_here || rules_.clips_by_norm()) return std::isfinite(norms.global_norm());
  return has_only_finite(gradients);
}

void HostUpdate::clip(Gradients& gradients, const SquareSums& norms) const {
  const torch::NoGradGuard no_grad;
  if (rules_.clip.norm) clip_by_norm(variables_, gradients, *rules_.clip.norm, norms);
  if (rules_.clip.global_norm) clip_by_global_norm(gradients, *rules_.clip.global_norm, norms);
}

void HostUpdate::apply(Gradients& gradients, std::int64_t step, const SquareSums& norms) {
  const torch::NoGradGuard no_grad;
  clip(gradients, norms);
  if (shard_) return updater_.apply(gradients, step, shard_->flat);
  if (average_ != nullptr) average_->before_update(gradients);
  updater_.apply(gradients, step);
  if (average_ != nullptr) average_->update(gradients, step);
}

bool DeviceUpdate::can_make(const UpdateRules& rules, const Variables& variables) {
  return !rules.checks_gradients && variables.sparse_count() == 0;
}

DeviceUpdate::DeviceUpdate(const Variables& variables, Updater& updater, UpdateRules rules,
                           MovingAverage* average, at::Tensor step, at::Tensor constants)
    : variables_(variables),
      updater_(updater),
      rules_(std::move(rules)),
      average_(average),
      clips_(rules_.clip.value || rules_.clips_by_norm()) {
  if (!can_make(rules_, variables))
    throw Internal("an update is given to a device that needs the host");
  const c10::Device device = variables.flat().device();
  arguments_.step = std::move(step);
  arguments_.constants = std::move(constants);
  arguments_.bad_step = at::zeros({1}, at::TensorOptions(at::kLong).device(device));
  if (!rules_.decays()) return;
  arguments_.decay = rules_.weight_decay.factor;
  arguments_.decayed = decay_mask(variables, rules_.weight_decay).to(device);
  arguments_.squares = at::zeros({static_cast<std::int64_t>(updater.squares_size())},
                                 at::TensorOptions(at::kDouble).device(device));
}

void DeviceUpdate::apply(Gradients& gradients, std::span<const at::Tensor> losses,
                         std::int64_t number) {
  const torch::NoGradGuard no_grad;
  DeviceArguments now = arguments_;
  std::vector<at::Tensor> present;
  for (const at::Tensor& loss : losses) {
    if (loss.defined()) present.push_back(loss.to(at::kFloat).reshape({1}));
  }
  now.losses = present.size() == 1 ? present[0] : at::cat(present);
  if (clips_) {
    if (rules_.decays()) updater_.add_decay(gradients, now);
    now.decayed = at::Tensor();
    now.squares = at::Tensor();
  }
  if (rules_.clip.value) clip_by_value(gradients, *rules_.clip.value);
  if (rules_.clip.norm) clip_by_norm_on_device(variables_, gradients, *rules_.clip.norm);
  if (rules_.clip.global_norm) clip_by_global_norm_on_device(gradients, *rules_.clip.global_norm);
  if (average_ != nullptr) average_->before_update(gradients);
  updater_.apply(gradients, now);
  if (average_ != nullptr) average_->update(gradients, number);
}

std::optional<std::int64_t> DeviceUpdate::first_bad_step() const {
  const auto step = arguments_.bad_step.item<std::int64_t>();
  return step == 0 ? std::nullopt : std::optional(step);
}

double DeviceUpdate::decay_loss() const {
  if (!arguments_.squares.defined()) return 0.0;
  return arguments_.decay * arguments_.squares.sum().item<double>() / 2;
}

}  // namespace muster
