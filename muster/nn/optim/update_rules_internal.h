#pragma once

#include <cmath>
#include <cstddef>
#include <variant>

/// Update of each element in one step: constants, and the arithmetic with them, which is the same
/// on every device. The constants are computed in double once a step and rounded to float here, so
/// that every layout, thread and device uses the same ones. `keep` is what decoupled weight decay
/// leaves of a weight. Compiled for the CPU and by nvcc, with no contraction into fused
/// multiply-adds.
#ifdef __CUDACC__
#define MUSTER_EVERYWHERE __host__ __device__
#else
#define MUSTER_EVERYWHERE
#endif

namespace muster::internal {

struct SgdRule {
  static constexpr std::size_t kSlots = 0;
  float rate, keep;
};
struct MomentumRule {
  static constexpr std::size_t kSlots = 1;
  float rate, keep, momentum;
};
struct NesterovRule {
  static constexpr std::size_t kSlots = 1;
  float rate, keep, momentum;
};
struct AdagradRule {
  static constexpr std::size_t kSlots = 1;
  float rate;
};
struct ProximalAdagradRule {
  static constexpr std::size_t kSlots = 1;
  float rate, l1, l2;
};
/// `rate` contains the bias corrections.
struct AdamRule {
  static constexpr std::size_t kSlots = 2;
  float rate, keep, one_minus_beta1, one_minus_beta2, epsilon;
};
struct RmsPropRule {
  static constexpr std::size_t kSlots = 2;
  float rate, one_minus_decay, momentum, epsilon;
};
struct CenteredRmsPropRule {
  static constexpr std::size_t kSlots = 3;
  float rate, one_minus_decay, momentum, epsilon;
};
/// For a learning rate power of -0.5.
struct FtrlRule {
  static constexpr std::size_t kSlots = 2;
  float rate, l1, two_l2, two_l2_shrinkage;
};
struct FtrlPowerRule {
  static constexpr std::size_t kSlots = 2;
  float rate, l1, two_l2, two_l2_shrinkage, minus_power;
};

struct LionRule {
  static constexpr std::size_t kSlots = 1;
  float rate, keep, one_minus_beta1, one_minus_beta2;
};

/// All of them: tables of what is done with each, on the CPU and on GPUs, are made of this list.
using UpdateRule =
    std::variant<SgdRule, MomentumRule, NesterovRule, AdagradRule, ProximalAdagradRule, AdamRule,
                 RmsPropRule, CenteredRmsPropRule, FtrlRule, FtrlPowerRule, LionRule>;

MUSTER_EVERYWHERE inline void step(const SgdRule& r, float& w, float g) {
  w = w * r.keep - r.rate * g;
}

MUSTER_EVERYWHERE inline void step(const MomentumRule& r, float& w, float g, float& acc) {
  acc = acc * r.momentum + g;
  w = w * r.keep - r.rate * acc;
}

MUSTER_EVERYWHERE inline void step(const NesterovRule& r, float& w, float g, float& acc) {
  acc = acc * r.momentum + g;
  w = w * r.keep - r.rate * (g + r.momentum * acc);
}

MUSTER_EVERYWHERE inline void step(const AdagradRule& r, float& w, float g, float& acc) {
  acc += g * g;
  w -= r.rate * g / std::sqrt(acc);
}

// A comparison with NaN is false: written so that NaN reaches the weight and is found there.
MUSTER_EVERYWHERE inline void step(const ProximalAdagradRule& r, float& w, float g, float& acc) {
  acc += g * g;
  const float rate = r.rate / std::sqrt(acc);
  const float moved = w - g * rate;
  const float shrunk = std::fabs(moved) - rate * r.l1;
  w = std::copysign(shrunk < 0.0f ? 0.0f : shrunk, moved) / (1.0f + r.l2 * rate);
}

MUSTER_EVERYWHERE inline void step(const AdamRule& r, float& w, float g, float& m, float& v) {
  m += (g - m) * r.one_minus_beta1;
  v += (g * g - v) * r.one_minus_beta2;
  w = w * r.keep - r.rate * m / (std::sqrt(v) + r.epsilon);
}

MUSTER_EVERYWHERE inline void step(const RmsPropRule& r, float& w, float g, float& ms, float& mom) {
  ms += (g * g - ms) * r.one_minus_decay;
  mom = mom * r.momentum + r.rate * g / std::sqrt(ms + r.epsilon);
  w -= mom;
}

MUSTER_EVERYWHERE inline void step(const CenteredRmsPropRule& r, float& w, float g, float& ms,
                                   float& mg, float& mom) {
  ms += (g * g - ms) * r.one_minus_decay;
  mg += (g - mg) * r.one_minus_decay;
  mom = mom * r.momentum + r.rate * g / std::sqrt(ms - mg * mg + r.epsilon);
  w -= mom;
}

// A direction that is neither above nor below 0 is 0 or NaN, which reaches the weight.
MUSTER_EVERYWHERE inline void step(const LionRule& r, float& w, float g, float& m) {
  const float difference = g - m;
  const float direction = m + difference * r.one_minus_beta1;
  const float sign = direction > 0.0f ? 1.0f : direction < 0.0f ? -1.0f : direction;
  w = w * r.keep - r.rate * sign;
  m += difference * r.one_minus_beta2;
}

/// `before` and `after` are the accumulator, raised to minus the learning rate power.
template <typename Rule>
MUSTER_EVERYWHERE inline void ftrl_step(const Rule& r, float& w, float g, float& linear,
                                        float before, float after) {
  linear += g + r.two_l2_shrinkage * w - (after - before) / r.rate * w;
  const float solved = (std::copysign(r.l1, linear) - linear) / (after / r.rate + r.two_l2);
  w = std::fabs(linear) <= r.l1 ? 0.0f : solved;
}

MUSTER_EVERYWHERE inline void step(const FtrlRule& r, float& w, float g, float& acc,
                                   float& linear) {
  const float sum = acc + g * g;
  ftrl_step(r, w, g, linear, std::sqrt(acc), std::sqrt(sum));
  acc = sum;
}

MUSTER_EVERYWHERE inline void step(const FtrlPowerRule& r, float& w, float g, float& acc,
                                   float& linear) {
  const float sum = acc + g * g;
  ftrl_step(r, w, g, linear, std::pow(acc, r.minus_power), std::pow(sum, r.minus_power));
  acc = sum;
}

}  // namespace muster::internal
