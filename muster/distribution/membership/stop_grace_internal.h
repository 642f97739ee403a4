#pragma once

#include <chrono>

#include "muster/base/signals.h"

namespace muster::internal {

/// A task that is asked to stop leaves at the next step, or when the chief says so, and what it
/// takes to get there it still does. Only a wait that lasts longer than this is given up.
inline constexpr std::chrono::seconds kStopGrace{2};

/// Whether a wait that began then is to be given up because a signal has come.
inline bool stops(std::chrono::steady_clock::time_point waiting_since,
                  std::chrono::milliseconds grace = kStopGrace) {
  return StopSignals::received() != 0 && std::chrono::steady_clock::now() - waiting_since > grace;
}

}  // namespace muster::internal
