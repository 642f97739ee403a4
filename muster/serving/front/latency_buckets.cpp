#include "muster/serving/front/latency_buckets.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::serving {
namespace {

constexpr double kLeastMs = 0.032;
constexpr double kBucketsPerDoubling = 6;

}  // namespace

void LatencyBuckets::add(std::chrono::nanoseconds taken) {
  const double milliseconds = std::chrono::duration<double, std::milli>(taken).count();
  const double place = kBucketsPerDoubling * std::log2(std::max(milliseconds, kLeastMs) / kLeastMs);
  ++counts_[std::min(static_cast<std::size_t>(place), counts_.size() - 1)];
}

std::uint64_t LatencyBuckets::count() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

double LatencyBuckets::percentile_ms(double part) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(count())));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    // The upper end of the bucket.
    if (seen > 0 && seen >= wanted) {
      return kLeastMs * std::exp2(static_cast<double>(i + 1) / kBucketsPerDoubling);
    }
  }
  return 0;
}

LatencyBuckets LatencyBuckets::since(const LatencyBuckets& before) const {
  LatencyBuckets out;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    out.counts_[i] = counts_[i] - before.counts_[i];
  }
  return out;
}

}  // namespace muster::serving
