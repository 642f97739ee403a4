#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/checkpoint/step_log.h"

namespace muster {

/// Summary of one log that was found sound.
struct StepLogSummary {
  Path file{};
  StepLogIdentity identity{};
  /// Its base, and how far it goes.
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  /// Committed: updates and batches that were skipped.
  std::int64_t committed = 0;
  std::int64_t skipped_batches = 0;
  /// Attempts at a step that came to nothing, and were retried.
  std::int64_t void_attempts = 0;
  bool ended = false;
  /// Whether it ends inside a record, as after a kill.
  bool torn = false;
};

/// Reads the newest log of every ps task under these folders, each a model_dir, its `ps_log` or a
/// task's own, and proves that every committed step holds the gradients of every replica exactly
/// once, that steps follow each other without a gap, and that all tasks tell the same of each.
/// Throws DataLoss, naming file and step, where one does not; NotFound for a folder without logs.
std::vector<StepLogSummary> check_step_logs(std::span<const Path> folders);

}  // namespace muster
