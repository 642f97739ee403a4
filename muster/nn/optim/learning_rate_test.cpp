#include "muster/nn/optim/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/base/error.h"

namespace muster {
namespace {

TEST(LearningRate, IsAConstantWhenMadeFromANumber) {
  const LearningRate rate = 0.05;
  EXPECT_EQ(rate.at(0), 0.05);
  EXPECT_EQ(rate.at(1'000'000'000'000), 0.05);
  EXPECT_EQ(rate.description(), "constant 0.05");
}

TEST(LearningRate, RefusesNegativeStepsAndRates) {
  EXPECT_THROW(LearningRate(0.1).at(-1), InvalidArgument);
  EXPECT_THROW(LearningRate(-0.1), InvalidArgument);
  EXPECT_THROW(LearningRate{std::numeric_limits<double>::quiet_NaN()}, InvalidArgument);
  EXPECT_THROW(LearningRate([](std::int64_t) { return INFINITY; }, "mine").at(0), InvalidArgument);
}

struct Cifar {
  std::int64_t workers;
  std::int64_t first, second, third;
};

class CifarSchedule : public ::testing::TestWithParam<Cifar> {};

TEST_P(CifarSchedule, HoldsEachValueUpToAndIncludingItsBoundary) {
  const Cifar golden = GetParam();
  const std::int64_t batches_per_epoch = 45000 / (128 * golden.workers);
  const LearningRate rate =
      piecewise({batches_per_epoch * 82, batches_per_epoch * 123, batches_per_epoch * 300},
                {0.1, 0.01, 0.001, 0.0002});
  EXPECT_EQ(rate.at(0), 0.1);
  EXPECT_EQ(rate.at(golden.first), 0.1);
  EXPECT_EQ(rate.at(golden.first + 1), 0.01);
  EXPECT_EQ(rate.at(golden.second), 0.01);
  EXPECT_EQ(rate.at(golden.second + 1), 0.001);
  EXPECT_EQ(rate.at(golden.third), 0.001);
  EXPECT_EQ(rate.at(golden.third + 1), 0.0002);
}

INSTANTIATE_TEST_SUITE_P(OneToThreeWorkers, CifarSchedule,
                         ::testing::Values(Cifar{1, 28782, 43173, 105300},
                                           Cifar{2, 14350, 21525, 52500},
                                           Cifar{3, 9594, 14391, 35100}));

TEST(Piecewise, RefusesBoundariesThatDoNotRiseAndCountsThatDoNotFit) {
  EXPECT_THROW(piecewise({10, 10}, {1, 2, 3}), InvalidArgument);
  EXPECT_THROW(piecewise({10}, {1}), InvalidArgument);
}

TEST(Piecewise, DescribesItself) {
  EXPECT_EQ(piecewise({10}, {0.1, 0.01}).description(), "piecewise 0.1, 0.01 after step 10");
}

TEST(Exponential, DecaysSmoothlyOrInStairs) {
  const LearningRate smooth = exponential({.initial = 0.1, .decay_steps = 3, .decay_rate = 0.96});
  const LearningRate stairs =
      exponential({.initial = 0.1, .decay_steps = 3, .decay_rate = 0.96, .staircase = true});
  EXPECT_DOUBLE_EQ(smooth.at(1), 0.1 * std::pow(0.96, 1.0 / 3));
  EXPECT_DOUBLE_EQ(stairs.at(2), 0.1);
  EXPECT_DOUBLE_EQ(stairs.at(3), 0.1 * 0.96);
  EXPECT_DOUBLE_EQ(stairs.at(8), 0.1 * 0.96 * 0.96);
}

TEST(Polynomial, EndsAtItsEndAndStaysThere) {
  const LearningRate rate =
      polynomial({.initial = 0.05, .decay_steps = 10, .end = 0.001, .power = 0.5});
  EXPECT_DOUBLE_EQ(rate.at(0), 0.05);
  EXPECT_DOUBLE_EQ(rate.at(5), 0.049 * std::sqrt(0.5) + 0.001);
  EXPECT_DOUBLE_EQ(rate.at(10), 0.001);
  EXPECT_DOUBLE_EQ(rate.at(1000), 0.001);
}

TEST(Polynomial, StartsOverWithALongerPeriodInCycles) {
  const LearningRate rate =
      polynomial({.initial = 0.05, .decay_steps = 10, .end = 0.0, .cycle = true});
  EXPECT_DOUBLE_EQ(rate.at(10), 0.0);
  EXPECT_DOUBLE_EQ(rate.at(15), 0.05 * 0.25);
  EXPECT_DOUBLE_EQ(rate.at(25), 0.05 * (1.0 - 25.0 / 30.0));
}

TEST(Cosine, FallsToAlphaOfTheInitialRate) {
  const LearningRate rate = cosine({.initial = 1.0, .decay_steps = 1000, .alpha = 0.1});
  EXPECT_DOUBLE_EQ(rate.at(0), 1.0);
  EXPECT_NEAR(rate.at(500), 0.55, 1e-12);
  EXPECT_NEAR(rate.at(250), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(rate.at(5000), 0.1, 1e-12);
}

TEST(WarmUp, RisesToTheScheduleItWraps) {
  const LearningRate rate = warm_up(piecewise({7}, {0.1, 0.01}), {.steps = 5, .start_factor = 0.2});
  EXPECT_DOUBLE_EQ(rate.at(0), 0.1 * 0.2);
  EXPECT_DOUBLE_EQ(rate.at(2), 0.1 * (0.2 + 0.8 * 0.4));
  EXPECT_DOUBLE_EQ(rate.at(5), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(7), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(8), 0.01);
}

TEST(CosineRestarts, BeginsAgainInLongerPeriodsAtLowerRates) {
  const LearningRate rate = cosine_restarts({.initial = 0.5,
                                             .first_decay_steps = 10,
                                             .period_factor = 2.0,
                                             .rate_factor = 0.5,
                                             .alpha = 0.1});
  // Periods are steps 0 to 9, 10 to 29, 30 to 69.
  EXPECT_DOUBLE_EQ(rate.at(0), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(5), 0.05 + 0.45 / 2);
  EXPECT_DOUBLE_EQ(rate.at(10), 0.05 + 0.225);
  EXPECT_DOUBLE_EQ(rate.at(20), 0.05 + 0.225 / 2);
  EXPECT_NEAR(rate.at(29), 0.05 + 0.225 * 0.5 * (1 + std::cos(std::acos(-1.0) * 0.95)), 1e-15);
  EXPECT_DOUBLE_EQ(rate.at(30), 0.05 + 0.1125);
  EXPECT_DOUBLE_EQ(rate.at(50), 0.05 + 0.1125 / 2);
  EXPECT_DOUBLE_EQ(rate.at(70), 0.05 + 0.05625);
}

TEST(CosineRestarts, BeginsExactlyAtEveryBorder) {
  for (const double factor : {1.0, 1.5, 2.0, 3.0}) {
    const LearningRate rate =
        cosine_restarts({.initial = 1, .first_decay_steps = 32, .period_factor = factor});
    double length = 32;
    double begin = 0;
    for (int period = 0; period < 6; ++period) {
      if (begin == std::floor(begin)) {
        const auto step = static_cast<std::int64_t>(begin);
        EXPECT_NEAR(rate.at(step), 1, 1e-12) << factor << " " << step;
        if (step > 0) {
          EXPECT_LT(rate.at(step - 1), 0.1) << factor << " " << step;
        }
      }
      begin += length;
      length *= factor;
    }
  }
}

TEST(CosineRestarts, RefusesShrinkingPeriods) {
  EXPECT_THROW(cosine_restarts({.initial = 1, .first_decay_steps = 10, .period_factor = 0.5}),
               InvalidArgument);
  EXPECT_THROW(cosine_restarts({.initial = 1, .first_decay_steps = 0}), InvalidArgument);
}

TEST(OneCycle, RisesToItsMaximumAndFallsBelowItsStart) {
  const LearningRate rate = one_cycle({.maximum = 1.0, .total_steps = 10});
  EXPECT_NEAR(rate.at(0), 1.0 / 25, 1e-12);
  EXPECT_NEAR(rate.at(2), 1.0, 1e-12);
  EXPECT_NEAR(rate.at(1), 1.0 / 25 + (1.0 - 1.0 / 25) / 2, 1e-12);
  EXPECT_NEAR(rate.at(9), 1.0 / 25 / 1e4, 1e-12);
  EXPECT_EQ(rate.at(9), rate.at(100));
}

TEST(InverseSquareRoot, PeaksAtTheEndOfItsWarmUp) {
  const LearningRate rate = inverse_square_root({.peak = 0.5, .warm_up_steps = 100});
  EXPECT_DOUBLE_EQ(rate.at(0), 0.005);
  EXPECT_DOUBLE_EQ(rate.at(99), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(399), 0.25);
}

}  // namespace
}  // namespace muster
