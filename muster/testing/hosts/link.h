#pragma once

#include <chrono>
#include <cstdint>

namespace muster::testing {

/// Properties of the way between any two hosts, in each direction.
struct Link {
  std::chrono::microseconds delay{0};
  /// A packet takes up to this much longer. It does not overtake the one before it.
  std::chrono::microseconds jitter{0};
  /// Share of packets that do not arrive.
  double loss = 0;
  /// Rate at which a host sends; 0: as fast as it can.
  std::int64_t bits_per_second = 0;
  /// Says which packets are lost, and how much longer others take.
  std::uint64_t seed = 1;

  /// Else hosts are connected by the kernel alone.
  bool needs_relay() const { return delay.count() > 0 || jitter.count() > 0 || loss > 0; }
};

}  // namespace muster::testing
