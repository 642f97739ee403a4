#include "muster/nn/optim/flat_kernels_internal.h"

#include <array>
#include <cmath>
#include <utility>

// Compiled with flags of its own (CMakeLists.txt): vectorised, no contraction into fused
// multiply-adds, and without errno for square roots, which would keep them scalar.
namespace muster::internal {
namespace {

/// The rows of a large table are rarely in the cache: this many before its turn a row is asked for.
constexpr std::size_t kRowsAhead = 8;

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
      // A value that this rate no longer moves is not moved by a smaller one either.
      if (moved == last) break;
    }
    average[i] = moved;
  }
}

void swap_values(std::size_t count, float* __restrict first, float* __restrict second) {
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
