#pragma once

#include <chrono>
#include <thread>

namespace muster::testing {

/// Whether `holds()` comes true. For what another process does: looked at again and again until it
/// holds, and given up after a minute, so that a test fails instead of hanging.
template <typename Holds>
bool eventually(Holds holds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace muster::testing
