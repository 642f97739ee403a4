#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/random.h"
#include "muster/nn/optim/optimizer.h"

/// Optimizers that are functions beside the formulas of their papers in double, for tests.
namespace muster::testing {

/// A variable of host memory with the slots of an optimizer.
struct WholeVariable {
  WholeVariable(const Optimizer& recipe, std::vector<std::int64_t> variable_shape,
                std::vector<float> initial)
      : optimizer(recipe), shape(std::move(variable_shape)), values(std::move(initial)) {
    for (const OptimizerSlot& slot : options().slots) {
      std::size_t size = 1;
      const auto slot_shape = slot.shape_of == nullptr ? shape : slot.shape_of(shape);
      for (const std::int64_t length : slot_shape) size *= static_cast<std::size_t>(length);
      slots.emplace_back(size, slot.initial);
    }
  }
  const CustomOptions& options() const { return std::get<CustomOptions>(optimizer.options()); }
  void step(const std::vector<float>& gradients, std::int64_t step, double rate_share = 0) {
    const std::vector<std::span<float>> spans(slots.begin(), slots.end());
    options().update({.learning_rate = optimizer.learning_rate().at(step),
                      .step = step,
                      .rate_share = rate_share,
                      .shape = shape,
                      .values = values,
                      .gradients = gradients,
                      .slots = spans});
  }

  Optimizer optimizer;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  std::vector<std::vector<float>> slots{};
};

/// The values by a formula.
struct UpdateReference {
  std::vector<double> values{};
};

inline std::vector<float> normal_floats(std::size_t count, std::uint64_t key, double scale) {
  Random random(key);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(scale * random.normal());
  return values;
}

/// Makes 100 steps of both with the same gradients, and compares all values to 1e-6.
/// `formula(reference, gradients, t)` makes step t, counted from 1, of the reference.
template <typename Formula>
void expect_as_reference(const Optimizer& optimizer, const std::vector<std::int64_t>& shape,
                         Formula formula) {
  std::size_t count = 1;
  for (const std::int64_t length : shape) count *= static_cast<std::size_t>(length);
  const std::vector<float> initial = normal_floats(count, 1, 0.3);
  WholeVariable variable(optimizer, shape, initial);
  UpdateReference reference{{initial.begin(), initial.end()}};
  for (std::int64_t t = 1; t <= 100; ++t) {
    const auto gradients = normal_floats(count, 100 + static_cast<std::uint64_t>(t), 1.0);
    variable.step(gradients, t - 1);
    formula(reference, std::vector<double>(gradients.begin(), gradients.end()), t);
  }
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_NEAR(variable.values[i], reference.values[i], 1e-6) << "element " << i;
    EXPECT_GT(std::abs(reference.values[i] - initial[i]), 1e-5) << "element " << i;
  }
}

}  // namespace muster::testing
