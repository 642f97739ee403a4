#include "muster/data/summary/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace muster {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

double count_below(const HistogramData& data, double limit) {
  double count = 0;
  for (std::size_t i = 0; i < data.limits.size() && data.limits[i] <= limit; ++i) {
    count += data.counts[i];
  }
  return count;
}

TEST(Histogram, LimitsGrowByATenthAndAreMirrored) {
  const auto limits = Histogram::default_limits();
  // 774 limits of 1e-12 * 1.1^k are below 1e20, and the largest double ends them; 0 is in the
  // middle.
  ASSERT_EQ(limits.size(), 2 * (774 + 1) + 1U);
  EXPECT_EQ(limits.front(), -kLargest);
  EXPECT_EQ(limits.back(), kLargest);
  const std::size_t zero = limits.size() / 2;
  EXPECT_EQ(limits[zero], 0);
  EXPECT_EQ(limits[zero + 1], 1e-12);
  EXPECT_EQ(limits[zero + 2], 1e-12 * 1.1);
  for (std::size_t i = 0; i <= zero; ++i) EXPECT_EQ(limits[zero - i], -limits[zero + i]);
  EXPECT_LT(limits[limits.size() - 2], 1e20);
  EXPECT_GT(limits[limits.size() - 2] * 1.1, 1e20);
}

TEST(Histogram, SumsAreThoseOfTheValues) {
  Histogram histogram;
  const std::vector<double> values{-2, 0, 0.5, 3, 3};
  histogram.add(values);
  const auto data = histogram.data();
  EXPECT_EQ(data.num, 5);
  EXPECT_EQ(data.min, -2);
  EXPECT_EQ(data.max, 3);
  EXPECT_EQ(data.sum, 4.5);
  EXPECT_EQ(data.sum_squares, 4 + 0.25 + 9 + 9);
  EXPECT_EQ(std::accumulate(data.counts.begin(), data.counts.end(), 0.0), 5);
}

TEST(Histogram, ValuesFallBelowTheirLimit) {
  Histogram histogram;
  histogram.add(std::vector<float>{-1, 0, 1, 1});
  const auto data = histogram.data();
  EXPECT_EQ(count_below(data, 0), 1);      // -1; a limit itself belongs to the next bucket
  EXPECT_EQ(count_below(data, 1e-12), 2);  // and 0
  EXPECT_EQ(count_below(data, kLargest), 4);
}

TEST(Histogram, RunsOfEmptyBucketsAreOne) {
  Histogram histogram;
  histogram.add(1.0);
  const auto data = histogram.data();
  ASSERT_EQ(data.counts, (std::vector<double>{0, 1, 0}));
  EXPECT_LE(data.limits[0], 1.0);
  EXPECT_GT(data.limits[1], 1.0);
  EXPECT_EQ(data.limits[2], kLargest);
}

TEST(Histogram, EmptyOneHasOneEmptyBucket) {
  const auto data = Histogram().data();
  EXPECT_EQ(data.num, 0);
  EXPECT_EQ(data.limits, std::vector<double>{kLargest});
  EXPECT_EQ(data.counts, std::vector<double>{0});
}

TEST(Histogram, ExtremesHaveABucketAndNonNumbersAreCountedApart) {
  Histogram histogram;
  for (const double value :
       {kLargest, -kLargest, 1e300, std::numeric_limits<double>::denorm_min(),
        std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    histogram.add(value);
  }
  const auto data = histogram.data();
  EXPECT_EQ(std::accumulate(data.counts.begin(), data.counts.end(), 0.0), 4);
  EXPECT_EQ(data.num, 4);
  EXPECT_EQ(histogram.non_finite(), 2U);
}

}  // namespace
}  // namespace muster
