#include "muster/optim/flat_kernels_internal.h"

#include <array>
#include <cmath>
#include <utility>

// Compiled with flags of its own (CMakeLists.txt): vectorised, no contraction into fused
// multiply-adds, and without errno for square roots, which would keep them scalar.
namespace muster::internal {
namespace {

/// The rows of a large table are rarely in the cache: so many before its turn a row is asked for.
constexpr std::size_t kRowsAhead = 8;

inline void step(const SgdRule& r, float& w, float g) { w = w * r.keep - r.rate * g; }

inline void step(const MomentumRule& r, float& w, float g, float& acc) {
  acc = acc * r.momentum + g;
  w = w * r.keep - r.rate * acc;
}

inline void step(const NesterovRule& r, float& w, float g, float& acc) {
  acc = acc * r.momentum + g;
  w = w * r.keep - r.rate * (g + r.momentum * acc);
}

inline void step(const AdagradRule& r, float& w, float g, float& acc) {
  acc += g * g;
  w -= r.rate * g / std::sqrt(acc);
}

// A comparison with NaN is false: written so that NaN reaches the weight and is found there.
inline void step(const ProximalAdagradRule& r, float& w, float g, float& acc) {
  acc += g * g;
  const float rate = r.rate / std::sqrt(acc);
  const float moved = w - g * rate;
  const float shrunk = std::fabs(moved) - rate * r.l1;
  w = std::copysign(shrunk < 0.0f ? 0.0f : shrunk, moved) / (1.0f + r.l2 * rate);
}

inline void step(const AdamRule& r, float& w, float g, float& m, float& v) {
  m += (g - m) * r.one_minus_beta1;
  v += (g * g - v) * r.one_minus_beta2;
  w = w * r.keep - r.rate * m / (std::sqrt(v) + r.epsilon);
}

inline void step(const RmsPropRule& r, float& w, float g, float& ms, float& mom) {
  ms += (g * g - ms) * r.one_minus_decay;
  mom = mom * r.momentum + r.rate * g / std::sqrt(ms + r.epsilon);
  w -= mom;
}

inline void step(const CenteredRmsPropRule& r, float& w, float g, float& ms, float& mg,
                 float& mom) {
  ms += (g * g - ms) * r.one_minus_decay;
  mg += (g - mg) * r.one_minus_decay;
  mom = mom * r.momentum + r.rate * g / std::sqrt(ms - mg * mg + r.epsilon);
  w -= mom;
}

/// `before` and `after` are the accumulator, raised to minus the learning rate power.
template <typename Rule>
inline void ftrl_step(const Rule& r, float& w, float g, float& linear, float before, float after) {
  linear += g + r.two_l2_shrinkage * w - (after - before) / r.rate * w;
  const float solved = (std::copysign(r.l1, linear) - linear) / (after / r.rate + r.two_l2);
  w = std::fabs(linear) <= r.l1 ? 0.0f : solved;
}

inline void step(const FtrlRule& r, float& w, float g, float& acc, float& linear) {
  const float sum = acc + g * g;
  ftrl_step(r, w, g, linear, std::sqrt(acc), std::sqrt(sum));
  acc = sum;
}

inline void step(const FtrlPowerRule& r, float& w, float g, float& acc, float& linear) {
  const float sum = acc + g * g;
  ftrl_step(r, w, g, linear, std::pow(acc, r.minus_power), std::pow(sum, r.minus_power));
  acc = sum;
}

/// `rule` is a copy, so that the compiler need not fear that a store changes it.
template <typename Rule, typename... Slot>
inline void run(const Rule rule, std::size_t count, float* __restrict values,
                const float* __restrict gradients, Slot* __restrict... slots) {
  for (std::size_t i = 0; i < count; ++i) step(rule, values[i], gradients[i], slots[i]...);
}

/// Calls `visit(rule, slot pointers...)` with as many slots as the rule has.
template <typename Visit>
void dispatch(const UpdateRule& any_rule, std::span<float* const> slots, const Visit& visit) {
  std::visit(
      [&]<typename Rule>(const Rule& rule) {
        [&]<std::size_t... kSlot>(std::index_sequence<kSlot...>) { visit(rule, slots[kSlot]...); }
        (std::make_index_sequence<Rule::kSlots>());
      },
      any_rule);
}

}  // namespace

void update(const UpdateRule& rule, std::size_t count, float* values, const float* gradients,
            std::span<float* const> slots) {
  dispatch(rule, slots, [&](const auto& constants, auto*... slot) {
    run(constants, count, values, gradients, slot...);
  });
}

void update_rows(const UpdateRule& rule, std::span<const std::int64_t> rows, std::size_t width,
                 float* values, const float* gradients, std::span<float* const> slots) {
  dispatch(rule, slots, [&](const auto constants, auto*... slot) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t first = static_cast<std::size_t>(rows[i]) * width;
      if (i + kRowsAhead < rows.size()) {
        const std::size_t ahead = static_cast<std::size_t>(rows[i + kRowsAhead]) * width;
        __builtin_prefetch(values + ahead, 1);
        (__builtin_prefetch(slot + ahead, 1), ...);
      }
      if (width == 1) {
        step(constants, values[first], gradients[i], slot[first]...);
        continue;
      }
      run(constants, width, values + first, gradients + i * width, (slot + first)...);
    }
  });
}

void add_scaled(std::size_t count, float factor, const float* __restrict source,
                float* __restrict target) {
  for (std::size_t i = 0; i < count; ++i) target[i] += factor * source[i];
}

void scale(std::size_t count, float factor, float* values) {
  for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

void clamp(std::size_t count, float limit, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values[i] > limit ? limit : values[i];
    values[i] = value < -limit ? -limit : value;
  }
}

void move_average(std::size_t count, float rate, const float* __restrict values,
                  float* __restrict average) {
  for (std::size_t i = 0; i < count; ++i) average[i] -= (average[i] - values[i]) * rate;
}

void move_average(std::size_t count, std::span<const float> rates, const float* values,
                  float* average) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values[i];
    float moved = average[i];
    for (const float rate : rates) {
      const float last = moved;
      moved -= (moved - value) * rate;
      // What this rate no longer moves, a smaller one does not move either.
      if (moved == last) break;
    }
    average[i] = moved;
  }
}

void swap(std::size_t count, float* __restrict first, float* __restrict second) {
  for (std::size_t i = 0; i < count; ++i) std::swap(first[i], second[i]);
}

double sum_of_squares(std::size_t count, const float* values) {
  constexpr std::size_t kLanes = 16;
  std::array<double, kLanes> sums{};
  const std::size_t whole = count - count % kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (std::size_t i = whole; i < count; ++i) {
    const double value = values[i];
    sums[i - whole] += value * value;
  }
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace muster::internal
