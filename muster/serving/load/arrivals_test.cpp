#include "muster/serving/load/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

std::vector<std::int64_t> first_of(Arrivals arrivals, int count) {
  std::vector<std::int64_t> out;
  for (int i = 0; i < count; ++i, arrivals.advance()) out.push_back(arrivals.time().count());
  return out;
}

TEST(Arrivals, ConstantOnesAreAtEqualDistances) {
  EXPECT_EQ(first_of({ArrivalPattern::kConstant, 1000, 0}, 4),
            (std::vector<std::int64_t>{0, 1'000'000, 2'000'000, 3'000'000}));
  // No distance is lost by rounding: 1/3 s each.
  EXPECT_EQ(first_of({ArrivalPattern::kConstant, 3, 0}, 3'000'001).back(), 1'000'000'000'000'000);
}

TEST(Arrivals, PoissonOnesAreAFunctionOfTheSeed) {
  const auto once = first_of({ArrivalPattern::kPoisson, 100, 7}, 1000);
  EXPECT_EQ(first_of({ArrivalPattern::kPoisson, 100, 7}, 1000), once);
  EXPECT_NE(first_of({ArrivalPattern::kPoisson, 100, 8}, 1000), once);
}

TEST(Arrivals, PoissonOnesHaveTheRateAndTheSpreadOfIndependentClients) {
  constexpr int kCount = 100'000;
  const auto times = first_of({ArrivalPattern::kPoisson, 1000, 1}, kCount);
  EXPECT_NEAR(static_cast<double>(times.back()) / kCount, 1e6, 2e4);
  // Distances are exponential: their deviation is their mean, and a share of 1/e is longer.
  double squares = 0;
  int longer = 0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    const auto gap = static_cast<double>(times[i] - times[i - 1]);
    EXPECT_GE(gap, 0);
    squares += (gap - 1e6) * (gap - 1e6);
    longer += gap > 1e6 ? 1 : 0;
  }
  EXPECT_NEAR(std::sqrt(squares / kCount), 1e6, 3e4);
  EXPECT_NEAR(longer, kCount / std::exp(1), kCount * 0.01);
}

TEST(Arrivals, CountFromZero) {
  Arrivals arrivals(ArrivalPattern::kPoisson, 10, 3);
  EXPECT_EQ(arrivals.index(), 0U);
  arrivals.advance();
  EXPECT_EQ(arrivals.index(), 1U);
}

TEST(Arrivals, RefuseARateThatIsNotPositive) {
  EXPECT_THROW(Arrivals(ArrivalPattern::kConstant, 0, 0), InvalidArgument);
  EXPECT_THROW(Arrivals(ArrivalPattern::kPoisson, std::nan(""), 0), InvalidArgument);
}

TEST(WeightedChoice, KeepsTheWeights) {
  const WeightedChoice choice({1, 0, 3}, 5);
  std::vector<int> counts(3);
  for (std::uint64_t i = 0; i < 40'000; ++i) ++counts[choice(i)];
  EXPECT_NEAR(counts[0], 10'000, 400);
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[2], 30'000, 400);
}

TEST(WeightedChoice, IsAFunctionOfSeedAndNumber) {
  const WeightedChoice one({1, 1}, 5);
  const WeightedChoice same({1, 1}, 5);
  const WeightedChoice other({1, 1}, 6);
  int different = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(one(i), same(i));
    different += one(i) != other(i) ? 1 : 0;
  }
  EXPECT_GT(different, 20);
}

TEST(WeightedChoice, RefusesWeightsThatCannotBe) {
  EXPECT_THROW(WeightedChoice({}, 0), InvalidArgument);
  EXPECT_THROW(WeightedChoice({0, 0}, 0), InvalidArgument);
  EXPECT_THROW(WeightedChoice({1, -1}, 0), InvalidArgument);
}

TEST(Arrivals, OfARateThatIsNextToNothingAreNeverDue) {
  for (const ArrivalPattern pattern : {ArrivalPattern::kConstant, ArrivalPattern::kPoisson}) {
    for (const double rate : {1e-12, 1e-310}) {
      Arrivals arrivals(pattern, rate, 1);
      for (int i = 0; i < 3; ++i) arrivals.advance();
      EXPECT_EQ(arrivals.time(), std::chrono::nanoseconds::max()) << rate;
    }
  }
}

}  // namespace
}  // namespace muster::serving
