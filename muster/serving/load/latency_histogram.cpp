#include "muster/serving/load/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace muster::serving {
namespace {

// Values below 2^kExactBits have a bucket each; every further power of two has 2^(kExactBits - 1),
// so a bucket is at most 1/128 of its values wide, and its middle at most 1/256 away from them.
constexpr unsigned kExactBits = 8;
constexpr std::uint64_t kHalf = std::uint64_t{1} << (kExactBits - 1);

std::size_t bucket_of(std::uint64_t value) {
  const auto width = static_cast<unsigned>(std::bit_width(value));
  if (width <= kExactBits) return static_cast<std::size_t>(value);
  const unsigned shift = width - kExactBits;
  return static_cast<std::size_t>(shift * kHalf + (value >> shift));
}

std::uint64_t middle_of(std::size_t bucket) {
  if (bucket < 2 * kHalf) return bucket;
  const auto shift = static_cast<unsigned>(bucket / kHalf - 1);
  const std::uint64_t low = (bucket - shift * kHalf) << shift;
  return low + (std::uint64_t{1} << shift) / 2;
}

}  // namespace

void LatencyHistogram::record(std::int64_t nanoseconds) {
  const std::int64_t value = std::max<std::int64_t>(nanoseconds, 0);
  const std::size_t bucket = bucket_of(static_cast<std::uint64_t>(value));
  if (bucket >= counts_.size()) counts_.resize(bucket + 1);
  ++counts_[bucket];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<std::uint64_t>(value);
  ++count_;
}

void LatencyHistogram::merge(const LatencyHistogram& other) {
  if (other.count_ == 0) return;
  if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
  for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
}

double LatencyHistogram::mean() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

std::int64_t LatencyHistogram::quantile(double share) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(share * static_cast<double>(count_));
  const auto rank =
      std::clamp<std::uint64_t>(wanted > 0 ? static_cast<std::uint64_t>(wanted) : 1, 1, count_);
  if (rank == count_) return max_;
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  while (bucket + 1 < counts_.size() && seen + counts_[bucket] < rank) seen += counts_[bucket++];
  return std::clamp(static_cast<std::int64_t>(middle_of(bucket)), min_, max_);
}

}  // namespace muster::serving
