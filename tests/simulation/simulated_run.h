// One run of a small training as a simulated cluster, with a supervisor that starts tasks again,
// and the judge of its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/testing/simulation/world.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/layouts.h"

namespace muster::simulation {

struct RunOptions {
  std::uint64_t seed = 1;
  Layout layout{};
  std::vector<Fault> faults{};
  std::int64_t steps = 12;
  /// When nothing is wrong any more, the run ends within this time.
  Time patience = 300 * kSecond;
  /// The hash that the weights must have; empty: not looked at.
  std::string hash{};
  /// Folder of the run, which is emptied before.
  Path folder{};
  /// File that the story is written to.
  Path story{};
};

struct RunEnd {
  /// Why the run is not as it should be; empty: it is.
  std::string finding{};
  std::string hash{};
  /// Simulated time.
  Time length = 0;
  int starts = 0;
  std::uint64_t switches = 0;
};

/// In a process of its own, so that every run begins with the same memory, whichever ran before.
/// The world must be reserved.
RunEnd simulate(const RunOptions& options);

/// The hash of one process that is not simulated.
std::string hash_of_one_process(const RunOptions& options);

}  // namespace muster::simulation
