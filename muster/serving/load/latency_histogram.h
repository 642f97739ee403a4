#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::serving {

/// Counts of latencies in buckets whose width grows with the latency: small, cheap to record, and
/// merged without loss. A quantile is within kRelativeError of the recorded value. One thread at a
/// time.
class LatencyHistogram {
 public:
  /// Bound of |quantile - recorded value| / recorded value.
  static constexpr double kRelativeError = 1.0 / 256;

  /// A negative latency is recorded as zero.
  void record(std::int64_t nanoseconds);
  /// Afterwards all is as if this one had recorded what `other` has, too.
  void merge(const LatencyHistogram& other);

  std::uint64_t count() const { return count_; }
  /// Exact; zero while nothing is recorded.
  std::int64_t min() const { return count_ == 0 ? 0 : min_; }
  std::int64_t max() const { return max_; }
  double mean() const;
  /// The smallest latency that at least this share of the recorded ones does not exceed, in
  /// nanoseconds; zero while nothing is recorded. `share` is in (0, 1].
  std::int64_t quantile(double share) const;

  bool operator==(const LatencyHistogram&) const = default;

 private:
  std::vector<std::uint64_t> counts_{};
  std::uint64_t count_ = 0;
  std::int64_t min_ = 0;
  std::int64_t max_ = 0;
  /// Whole nanoseconds, so that merging in any order gives the same: 2^64 of them are 584 years.
  std::uint64_t sum_ = 0;
};

}  // namespace muster::serving
