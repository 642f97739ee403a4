#include <torch/types.h>

#include <utility>
#include <vector>

#include "muster/nn/optim/device_update_internal.h"

namespace muster::internal {
namespace {

using at::Tensor;

void decay(const Tensor& w, float keep) {
  if (keep != 1.0f) w.mul_(keep);
}

void step(const SgdRule& r, const Tensor& w, const Tensor& g) {
  decay(w, r.keep);
  w.sub_(g, r.rate);
}

void step(const MomentumRule& r, const Tensor& w, const Tensor& g, const Tensor& acc) {
  acc.mul_(r.momentum).add_(g);
  decay(w, r.keep);
  w.sub_(acc, r.rate);
}

void step(const NesterovRule& r, const Tensor& w, const Tensor& g, const Tensor& acc) {
  acc.mul_(r.momentum).add_(g);
  decay(w, r.keep);
  w.sub_(g.add(acc, r.momentum), r.rate);
}

void step(const AdagradRule& r, const Tensor& w, const Tensor& g, const Tensor& acc) {
  acc.addcmul_(g, g);
  w.addcdiv_(g, acc.sqrt(), -r.rate);
}

void step(const ProximalAdagradRule& r, const Tensor& w, const Tensor& g, const Tensor& acc) {
  acc.addcmul_(g, g);
  const Tensor rate = acc.rsqrt().mul_(r.rate);
  const Tensor moved = w.addcmul(g, rate, -1);
  const Tensor shrunk = moved.abs().sub_(rate, r.l1).clamp_min_(0);
  w.copy_(moved.sign().mul_(shrunk).div_(rate.mul(r.l2).add_(1)));
}

void step(const AdamRule& r, const Tensor& w, const Tensor& g, const Tensor& m, const Tensor& v) {
  m.lerp_(g, r.one_minus_beta1);
  v.lerp_(g.square(), r.one_minus_beta2);
  decay(w, r.keep);
  w.addcdiv_(m, v.sqrt().add_(r.epsilon), -r.rate);
}

void step(const RmsPropRule& r, const Tensor& w, const Tensor& g, const Tensor& ms,
          const Tensor& mom) {
  ms.lerp_(g.square(), r.one_minus_decay);
  mom.mul_(r.momentum).addcdiv_(g, ms.add(r.epsilon).sqrt_(), r.rate);
  w.sub_(mom);
}

void step(const CenteredRmsPropRule& r, const Tensor& w, const Tensor& g, const Tensor& ms,
          const Tensor& mg, const Tensor& mom) {
  ms.lerp_(g.square(), r.one_minus_decay);
  mg.lerp_(g, r.one_minus_decay);
  mom.mul_(r.momentum).addcdiv_(g, ms.addcmul(mg, mg, -1).add_(r.epsilon).sqrt_(), r.rate);
  w.sub_(mom);
}

void step(const LionRule& r, const Tensor& w, const Tensor& g, const Tensor& m) {
  const Tensor direction = m.lerp(g, r.one_minus_beta1);
  decay(w, r.keep);
  w.sub_(direction.sign(), r.rate);
  m.lerp_(g, r.one_minus_beta2);
}

template <typename Rule>
void ftrl_step(const Rule& r, const Tensor& w, const Tensor& g, const Tensor& linear,
               const Tensor& before, const Tensor& after) {
  linear.add_(g).add_(w, r.two_l2_shrinkage).sub_(after.sub(before).div_(r.rate).mul_(w));
  const Tensor solved =
      linear.sign().mul_(r.l1).sub_(linear).div_(after.div(r.rate).add_(r.two_l2));
  w.copy_(solved.masked_fill_(linear.abs() <= r.l1, 0));
}

void step(const FtrlRule& r, const Tensor& w, const Tensor& g, const Tensor& acc,
          const Tensor& linear) {
  const Tensor before = acc.sqrt();
  acc.addcmul_(g, g);
  ftrl_step(r, w, g, linear, before, acc.sqrt());
}

void step(const FtrlPowerRule& r, const Tensor& w, const Tensor& g, const Tensor& acc,
          const Tensor& linear) {
  const Tensor before = acc.pow(r.minus_power);
  acc.addcmul_(g, g);
  ftrl_step(r, w, g, linear, before, acc.pow(r.minus_power));
}

}  // namespace

void device_update(const UpdateRule& any_rule, const Tensor& values, const Tensor& gradients,
                   std::span<const Tensor> slots) {
  std::visit(
      [&]<typename Rule>(const Rule& rule) {
        [&]<std::size_t... kSlot>(std::index_sequence<kSlot...>) {
          step(rule, values, gradients, slots[kSlot]...);
        }
        (std::make_index_sequence<Rule::kSlots>());
      },
      any_rule);
}

void device_update_rows(const UpdateRule& rule, const RowGradient& gradient, const Tensor& values,
                        std::span<const Tensor> slots) {
  const Tensor touched = values.index_select(0, gradient.rows);
  std::vector<Tensor> touched_slots;
  for (const Tensor& slot : slots) touched_slots.push_back(slot.index_select(0, gradient.rows));
  device_update(rule, touched, gradient.values, touched_slots);
  values.index_copy_(0, gradient.rows, touched);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i].index_copy_(0, gradient.rows, touched_slots[i]);
  }
}

}  // namespace muster::internal
