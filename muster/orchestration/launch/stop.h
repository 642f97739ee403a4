#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::launch {

struct StopOptions {
  Path log_dir{"runlogs"};
  /// How long the launcher may take to end its tasks, and after it each task that is left.
  std::chrono::milliseconds grace{30'000};
};

/// Ends the launch that uses this folder, and tasks that outlived theirs, found by their pid files;
/// a number that belongs to another process by now is left alone. Returns one line for each that
/// was ended.
std::vector<std::string> stop(const StopOptions& options);

}  // namespace muster::launch
