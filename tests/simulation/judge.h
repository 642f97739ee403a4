// Conditions that hold when a simulated run has ended: of its disks, and of what its tasks have
// said.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::simulation {

struct Expected {
  std::int64_t steps = 0;
  /// The hash that the weights must have; empty: any, but finite.
  std::string hash{};
  /// Whether the run ends at that step exactly, not soon after it.
  bool ends_at_steps = true;
  /// Whether a file that was begun may be left, and logs may end early: disks were full.
  bool may_be_cut_short = false;
  /// Folder of all tasks, and below it those of the chief and of tasks that keep logs of steps.
  Path folder{};
  std::string model_dir{};
  std::vector<Path> step_logs{};
};

struct Verdict {
  /// Why the run is not as it should be; empty: it is.
  std::string finding{};
  std::string hash{};
};

/// Reads files by the product's own code: for a process that is not simulated and ends soon.
Verdict judge_disks(const Expected& expected);

/// Looks at what the chief says in a story: a step that was reported as saved is one that the next
/// chief begins with, or a later one. Empty, or what is wrong.
std::string find_lost_save(std::string_view story);

}  // namespace muster::simulation
