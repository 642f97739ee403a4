#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// Content of the file `checkpoint` of a model_dir: which checkpoints there are and which one
/// counts. Paths are relative to the folder unless they begin with '/'.
struct CheckpointState {
  std::string model_checkpoint_path{};
  /// Oldest to newest.
  std::vector<std::string> all_model_checkpoint_paths{};
  /// Seconds since 1970, one for each path; empty in files of old writers.
  std::vector<double> all_model_checkpoint_timestamps{};
  /// Where keep_checkpoint_every_n_hours counts from.
  std::optional<double> last_preserved_timestamp{};
};

/// Nothing when there is no such file, and also, after a warning, when it cannot be read or parsed.
std::optional<CheckpointState> read_checkpoint_state(const Path& model_dir);

/// Replaces the file in one step; on return it is on the disk.
void write_checkpoint_state(const Path& model_dir, const CheckpointState& state);

}  // namespace muster
