#include "muster/serving/load/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "muster/base/random.h"

namespace muster::serving {
namespace {

// Latencies from nanoseconds to hours, evenly over the powers of ten.
std::vector<std::int64_t> latencies(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::vector<std::int64_t> out;
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<std::int64_t>(std::pow(10, random.uniform(0, 13))));
  }
  return out;
}

LatencyHistogram histogram_of(const std::vector<std::int64_t>& values) {
  LatencyHistogram histogram;
  for (const auto value : values) histogram.record(value);
  return histogram;
}

TEST(LatencyHistogram, QuantilesAreWithinTheRelativeErrorOfTheRecordedValues) {
  std::vector<std::int64_t> values = latencies(7, 20'000);
  const LatencyHistogram histogram = histogram_of(values);
  std::ranges::sort(values);
  for (const double share : {0.0001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * 20'000));
    const auto exact = static_cast<double>(values[rank - 1]);
    EXPECT_NEAR(static_cast<double>(histogram.quantile(share)), exact,
                exact * LatencyHistogram::kRelativeError)
        << share;
  }
  EXPECT_EQ(histogram.quantile(1), values.back());
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
}

TEST(LatencyHistogram, EveryValueIsWithinTheRelativeErrorAlone) {
  for (int bit = 0; bit < 62; ++bit) {
    for (const std::int64_t offset : {-1, 0, 1}) {
      const std::int64_t value = (std::int64_t{1} << bit) + offset;
      LatencyHistogram histogram;
      // Two of them and two extremes, so that neither min() nor max() corrects the bucket.
      histogram.record(0);
      histogram.record(value);
      histogram.record(value);
      histogram.record(std::numeric_limits<std::int64_t>::max());
      EXPECT_NEAR(static_cast<double>(histogram.quantile(0.5)), static_cast<double>(value),
                  static_cast<double>(value) * LatencyHistogram::kRelativeError);
    }
  }
}

TEST(LatencyHistogram, MergesAsIfOneHadRecordedAll) {
  const std::vector<std::int64_t> first = latencies(1, 1000);
  const std::vector<std::int64_t> second = latencies(2, 300);
  std::vector<std::int64_t> both = first;
  both.insert(both.end(), second.begin(), second.end());
  LatencyHistogram merged = histogram_of(first);
  merged.merge(histogram_of(second));
  EXPECT_EQ(merged, histogram_of(both));
  LatencyHistogram other_way = histogram_of(second);
  other_way.merge(histogram_of(first));
  EXPECT_EQ(other_way, merged);
  merged.merge(LatencyHistogram());
  EXPECT_EQ(merged, other_way);
}

TEST(LatencyHistogram, IsZeroWhileNothingIsRecorded) {
  const LatencyHistogram histogram;
  EXPECT_EQ(histogram.quantile(0.99), 0);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.mean(), 0);
}

TEST(LatencyHistogram, MeanIsExact) {
  EXPECT_EQ(histogram_of({1, 1000, 1'000'001}).mean(), 333'667 + 1.0 / 3);
}

}  // namespace
}  // namespace muster::serving
