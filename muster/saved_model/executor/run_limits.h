#pragma once

#include <chrono>
#include <cstdint>

namespace muster::executor {

/// Limits of one request, or of the load of one model. A graph of a few bytes can ask for any
/// amount of memory and time; what goes beyond a limit is refused with ResourceExhausted, before it
/// is made where its size is known.
struct RunLimits {
  /// Bytes of the values that are held at one time, beside variables, constants and the inputs.
  std::int64_t live_bytes = std::int64_t{4} << 30;
  /// Bytes of all values that are made, freed ones too.
  std::int64_t total_bytes = std::int64_t{1} << 40;
  /// Operations that are run, inside of functions and loops too.
  std::int64_t operations = 10'000'000;
  /// Calls of functions; a step of a loop counts as two, one of its condition and one of its body.
  std::int64_t calls = 1'000'000;
  /// Functions that may be inside each other's calls.
  std::int64_t call_depth = 64;
  /// Looked at between operations and inside of long ones; reading variables from files does not
  /// count.
  std::chrono::milliseconds time = std::chrono::minutes(10);
};

}  // namespace muster::executor
