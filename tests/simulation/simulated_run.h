// One run of a small training as a simulated cluster, with a supervisor that starts tasks again,
// and the judge of its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/testing/simulation/world.h"
#include "tests/simulation/faults.h"

namespace muster::simulation {

struct Layout {
  std::string name;
  int workers = 2;
  int servers = 0;
  std::vector<std::string> flags{};
  /// Whether the weights are those of one process, whichever tasks were lost.
  bool exact = true;

  std::vector<std::string> tasks() const;
};

const std::vector<Layout>& layouts();

struct RunOptions {
  std::uint64_t seed = 1;
  Layout layout{};
  std::vector<Fault> faults{};
  std::int64_t steps = 24;
  /// The hash that the weights must have; empty: not looked at.
  std::string hash{};
  /// Folder of the run, which is emptied before.
  Path folder{};
  /// An open file that the story is written to.
  int story = -1;
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

RunEnd simulate(const RunOptions& options);

/// The hash of one process that is not simulated.
std::string hash_of_one_process(const RunOptions& options);

}  // namespace muster::simulation
