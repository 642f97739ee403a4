#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace muster::serving {

/// Counts of durations, by which percentiles are known to an eighth: six buckets for each doubling,
/// from 32 microseconds to a minute. A value; belongs to one thread.
class LatencyBuckets {
 public:
  void add(std::chrono::nanoseconds taken);
  std::uint64_t count() const;
  /// The duration that this part of all do not exceed, in milliseconds; 0 where there are none.
  double percentile_ms(double part) const;
  /// Those that came since.
  LatencyBuckets since(const LatencyBuckets& before) const;

 private:
  std::array<std::uint64_t, 128> counts_{};
};

}  // namespace muster::serving
