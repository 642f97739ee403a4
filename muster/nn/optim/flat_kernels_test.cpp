#include "muster/nn/optim/flat_kernels_internal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "muster/base/random.h"

namespace muster::internal {
namespace {

using Floats = std::vector<float>;

/// A variable with its slots, and steps over it.
struct State {
  State(const Optimizer& recipe, Floats initial) : optimizer(recipe), values(std::move(initial)) {
    for (const OptimizerSlot& slot : slots_of(optimizer)) {
      slots.emplace_back(values.size(), slot.initial);
    }
    powers = first_powers(optimizer).value_or(BetaPowers{});
  }

  void step(const Floats& gradients) {
    const UpdateRule rule = rule_of(optimizer, optimizer.learning_rate().at(0), powers);
    update(rule, values.size(), values.data(), gradients.data(), pointers());
    powers = next_powers(optimizer, powers);
  }

  std::vector<float*> pointers(std::size_t first = 0) {
    std::vector<float*> pointers;
    for (Floats& slot : slots) pointers.push_back(slot.data() + first);
    return pointers;
  }

  Optimizer optimizer;
  Floats values;
  std::vector<Floats> slots;
  BetaPowers powers;
};

Floats after(const Optimizer& optimizer, Floats values, const Floats& gradients, int steps) {
  State state(optimizer, std::move(values));
  for (int i = 0; i < steps; ++i) state.step(gradients);
  return state.values;
}

void expect_near(const Floats& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
  }
}

Floats random_floats(std::size_t count, std::uint64_t key) {
  Random random(key);
  Floats values(count);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

std::vector<Optimizer> every_optimizer() {
  return {sgd({.learning_rate = 0.1, .weight_decay = 0.01}),
          momentum({.learning_rate = 0.1}),
          momentum({.learning_rate = 0.1, .nesterov = true, .weight_decay = 0.01}),
          adagrad({.learning_rate = 0.1}),
          proximal_adagrad({.learning_rate = 0.1, .l1 = 0.1, .l2 = 0.1}),
          adam({.learning_rate = 0.1}),
          adamw({.learning_rate = 0.1}),
          rmsprop({.learning_rate = 0.1, .momentum = 0.5}),
          rmsprop({.learning_rate = 0.1, .momentum = 0.5, .centered = true}),
          ftrl({.learning_rate = 0.1, .l1 = 0.1, .l2 = 0.1, .l2_shrinkage = 0.1}),
          ftrl({.learning_rate = 0.1, .learning_rate_power = -0.7, .l1 = 0.1}),
          lion({.learning_rate = 0.1, .weight_decay = 0.01})};
}

TEST(Sgd, SubtractsTheRateTimesTheGradient) {
  expect_near(after(sgd({.learning_rate = 0.5}), {1, 2}, {0.5, -1}, 2), {0.5, 3.0}, 0);
}

TEST(Sgd, DecaysWeightsApartFromTheGradient) {
  // w = w (1 - 0.5 * 0.2) - 0.5 * g, by hand.
  expect_near(after(sgd({.learning_rate = 0.5, .weight_decay = 0.2}), {1}, {1}, 1), {0.4}, 1e-7);
}

TEST(Momentum, AccumulatesGradients) {
  // acc 0.1, 0.19; w = 1 - 2 * 0.1 - 2 * 0.19.
  expect_near(after(momentum({.learning_rate = 2.0}), {1, 2}, {0.1f, 0.1f}, 2), {0.42, 1.42}, 1e-6);
}

TEST(Momentum, LooksAheadWithNesterov) {
  // acc 0.1, 0.19; steps 2 (0.1 + 0.09) and 2 (0.1 + 0.171).
  expect_near(after(momentum({.learning_rate = 2.0, .nesterov = true}), {1}, {0.1f}, 2),
              {1 - 0.38 - 0.542}, 1e-6);
}

TEST(Lion, TakesTheSignOfTheMovingAverage) {
  expect_near(after(lion({.learning_rate = 0.5}), {1, 2, 3}, {4, -1, 0}, 1), {0.5, 2.5, 3}, 0);
  State state(lion({.learning_rate = 0.5}), {1});
  state.step({4});
  EXPECT_FLOAT_EQ(state.slots[0][0], 0.04F);
  // 0.04 - 0.1 * 0.34 is above 0, and the next one below.
  state.step({-0.3F});
  EXPECT_EQ(state.values[0], 0.0F);
  state.step({-0.5F});
  EXPECT_EQ(state.values[0], 0.5F);
}

// Algorithm 2 of "Symbolic Discovery of Optimization Algorithms", in double.
TEST(Lion, IsThePapersAfterAHundredSteps) {
  // Rates that a float holds.
  constexpr double kRate = 0x1p-10, kBeta1 = 0.9, kBeta2 = 0.99, kDecay = 0x1p-4;
  constexpr std::size_t kCount = 200;
  Floats initial = random_floats(kCount, 41);
  for (float& value : initial) value *= 0.1F;
  State state(lion({.learning_rate = kRate, .weight_decay = kDecay}), initial);
  std::vector<double> weights(initial.begin(), initial.end());
  std::vector<double> momenta(kCount, 0.0);
  for (std::uint64_t step = 0; step < 100; ++step) {
    const Floats gradients = random_floats(kCount, 1000 + step);
    state.step(gradients);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double gradient = gradients[i];
      const double direction = kBeta1 * momenta[i] + (1 - kBeta1) * gradient;
      const double sign = direction > 0 ? 1 : direction < 0 ? -1 : 0;
      weights[i] -= kRate * (sign + kDecay * weights[i]);
      momenta[i] = kBeta2 * momenta[i] + (1 - kBeta2) * gradient;
    }
  }
  expect_near(state.values, weights, 1e-6);
}

TEST(Lion, LetsNaNReachTheWeight) {
  EXPECT_TRUE(std::isnan(after(lion(), {1}, {std::numeric_limits<float>::quiet_NaN()}, 1)[0]));
}

// The vectors below named TensorFlow are those of its own unit tests.
TEST(Adagrad, MatchesTensorFlow) {
  const Optimizer optimizer = adagrad({.learning_rate = 3.0});
  expect_near(after(optimizer, {1, 2}, {0.1f, 0.1f}, 3), {-1.6026098728, -0.6026098728}, 2e-6);
  expect_near(after(optimizer, {3, 4}, {0.01f, 0.01f}, 3), {2.7156791687, 3.7156791687}, 2e-6);
}

TEST(ProximalAdagrad, MatchesTensorFlow) {
  const ProximalAdagradOptions plain{.learning_rate = 3.0};
  expect_near(after(proximal_adagrad(plain), {0, 0}, {0.1f, 0.2f}, 3), {-2.60260963, -4.29698515},
              2e-6);
  expect_near(after(proximal_adagrad(plain), {4, 3}, {0.01f, 0.02f}, 3), {3.715679, 2.433051},
              2e-6);
  const ProximalAdagradOptions l1{.learning_rate = 3.0, .l1 = 0.001};
  expect_near(after(proximal_adagrad(l1), {1, 2}, {0.1f, 0.2f}, 10), {-6.663634, -9.190331}, 1e-5);
  expect_near(after(proximal_adagrad(l1), {4, 3}, {0.01f, 0.02f}, 10), {2.959304, 1.029232}, 1e-5);
  const ProximalAdagradOptions both{.learning_rate = 3.0, .l1 = 0.001, .l2 = 2.0};
  expect_near(after(proximal_adagrad(both), {1, 2}, {0.1f, 0.2f}, 10), {-0.0495, -0.0995}, 1e-5);
  expect_near(after(proximal_adagrad(both), {4, 3}, {0.01f, 0.02f}, 10), {-0.0045, -0.0095}, 1e-5);
}

TEST(Ftrl, MatchesTensorFlow) {
  const FtrlOptions plain{.learning_rate = 3.0};
  expect_near(after(ftrl(plain), {0, 0}, {0.1f, 0.2f}, 3), {-2.60260963, -4.29698515}, 2e-6);
  expect_near(after(ftrl(plain), {1, 2}, {0.1f, 0.2f}, 3), {-2.55607247, -3.98729396}, 2e-6);
  expect_near(after(ftrl(plain), {4, 3}, {0.01f, 0.02f}, 3), {-0.28232238, -0.56096673}, 2e-6);
  const FtrlOptions l1{.learning_rate = 3.0, .l1 = 0.001};
  expect_near(after(ftrl(l1), {1, 2}, {0.1f, 0.2f}, 10), {-7.66718769, -10.91273689}, 1e-5);
  expect_near(after(ftrl(l1), {4, 3}, {0.01f, 0.02f}, 10), {-0.93460727, -1.86147261}, 1e-5);
  const FtrlOptions both{.learning_rate = 3.0, .l1 = 0.001, .l2 = 2.0};
  expect_near(after(ftrl(both), {1, 2}, {0.1f, 0.2f}, 10), {-0.24059935, -0.46829352}, 1e-5);
  expect_near(after(ftrl(both), {4, 3}, {0.01f, 0.02f}, 10), {-0.02406147, -0.04830509}, 1e-5);
}

TEST(Ftrl, AgreesWithItsGeneralFormAtAPowerOfAHalf) {
  const Floats gradients = random_floats(100, 1);
  const FtrlOptions options{.learning_rate = 0.1, .l1 = 0.2, .l2 = 0.3, .l2_shrinkage = 0.1};
  State state(ftrl(options), random_floats(100, 2));
  Floats values = state.values;
  auto slots = state.slots;
  for (int i = 0; i < 5; ++i) state.step(gradients);
  const FtrlPowerRule general{0.1f, 0.2f, 0.6f, 0.2f, 0.5f};
  const std::vector<float*> pointers{slots[0].data(), slots[1].data()};
  for (int i = 0; i < 5; ++i) update(general, 100, values.data(), gradients.data(), pointers);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_NEAR(values[i], state.values[i], 1e-5);
}

TEST(Adam, MatchesItsFormulaInDouble) {
  const double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, rate = 0.001;
  const Floats gradients{0.1f, -3.0f, 1e-4f};
  std::vector<double> w{1, 2, 3}, m(3), v(3);
  for (int t = 1; t <= 50; ++t) {
    for (std::size_t i = 0; i < 3; ++i) {
      const double g = gradients[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const double alpha = rate * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
      w[i] -= alpha * m[i] / (std::sqrt(v[i]) + epsilon);
    }
  }
  expect_near(after(adam(), {1, 2, 3}, gradients, 50), w, 2e-5);
}

TEST(RmsProp, MatchesItsFormulaInDouble) {
  const Floats gradients{0.1f, -3.0f, 1e-4f};
  for (const bool centered : {false, true}) {
    std::vector<double> w{1, 2, 3}, ms(3, 1.0), mg(3), mom(3);
    for (int t = 0; t < 20; ++t) {
      for (std::size_t i = 0; i < 3; ++i) {
        const double g = gradients[i];
        ms[i] = 0.9 * ms[i] + 0.1 * g * g;
        mg[i] = centered ? 0.9 * mg[i] + 0.1 * g : 0;
        mom[i] = 0.5 * mom[i] + 0.01 * g / std::sqrt(ms[i] - mg[i] * mg[i] + 1e-10);
        w[i] -= mom[i];
      }
    }
    const RmsPropOptions options{.learning_rate = 0.01, .momentum = 0.5, .centered = centered};
    expect_near(after(rmsprop(options), {1, 2, 3}, gradients, 20), w, 2e-5);
  }
}

TEST(AdamW, ShrinksWeightsByTheRateTimesTheDecay) {
  expect_near(after(adamw({.learning_rate = 0.1, .weight_decay = 0.5}), {2}, {0}, 1), {1.9}, 1e-6);
}

TEST(Update, GivesTheSameBitsHoweverTheRangeIsSplit) {
  const std::size_t count = 1003;
  const Floats gradients = random_floats(count, 3);
  for (const Optimizer& optimizer : every_optimizer()) {
    State whole(optimizer, random_floats(count, 4));
    State split = whole;
    const UpdateRule rule = rule_of(optimizer, 0.1, whole.powers);
    update(rule, count, whole.values.data(), gradients.data(), whole.pointers());
    std::size_t first = 0;
    for (const std::size_t size : {1, 2, 3, 5, 16, 17, 31, 64, 100, 764}) {
      update(rule, size, split.values.data() + first, gradients.data() + first,
             split.pointers(first));
      first += size;
    }
    ASSERT_EQ(first, count);
    EXPECT_EQ(split.values, whole.values) << optimizer.description();
    EXPECT_EQ(split.slots, whole.slots) << optimizer.description();
  }
}

TEST(UpdateRows, ChangesNamedRowsAsADenseUpdateWouldAndNoOthers) {
  const std::size_t rows = 20, width = 7;
  const std::vector<std::int64_t> touched{0, 3, 4, 19};
  const Floats gradients = random_floats(touched.size() * width, 5);
  for (const Optimizer& optimizer : every_optimizer()) {
    State sparse(optimizer, random_floats(rows * width, 6));
    const State before = sparse;
    State dense = sparse;
    const UpdateRule rule = rule_of(optimizer, 0.1, sparse.powers);
    update_rows(rule, touched, width, sparse.values.data(), gradients.data(), sparse.pointers());
    for (std::size_t i = 0; i < touched.size(); ++i) {
      const std::size_t first = static_cast<std::size_t>(touched[i]) * width;
      update(rule, width, dense.values.data() + first, gradients.data() + i * width,
             dense.pointers(first));
    }
    EXPECT_EQ(sparse.values, dense.values) << optimizer.description();
    EXPECT_EQ(sparse.slots, dense.slots) << optimizer.description();
    for (std::size_t i = width; i < 3 * width; ++i) EXPECT_EQ(sparse.values[i], before.values[i]);
    EXPECT_NE(sparse.values, before.values);
  }
}

TEST(Update, LetsNanReachTheWeights) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Optimizer& optimizer : every_optimizer()) {
    EXPECT_TRUE(std::isnan(after(optimizer, {1}, {nan}, 1)[0])) << optimizer.description();
  }
}

TEST(SumOfSquares, IsExactWhereFloatsWouldRound) {
  Floats values(100'001, 1.0f);
  values[0] = 8192.0f;
  EXPECT_EQ(sum_of_squares(values.size(), values.data()), 100'000.0 + 8192.0 * 8192.0);
  EXPECT_EQ(sum_of_squares(0, values.data()), 0.0);
  EXPECT_EQ(sum_of_squares(5, values.data() + 1), 5.0);
}

TEST(Clamp, KeepsNan) {
  Floats values{-3, 0.5, 3, std::numeric_limits<float>::quiet_NaN()};
  clamp(values.size(), 1.0f, values.data());
  EXPECT_EQ(values[0], -1.0f);
  EXPECT_EQ(values[1], 0.5f);
  EXPECT_EQ(values[2], 1.0f);
  EXPECT_TRUE(std::isnan(values[3]));
}

}  // namespace
}  // namespace muster::internal
