#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/checkpoint_pin.h"

/// Reading the checkpoints of a model_dir. Nothing here changes a file, so an evaluator or a tool
/// may call it while a trainer writes.
namespace muster {

/// The number after the last '-' of a prefix: 400 of "runs/census/model.ckpt-400".
std::optional<std::int64_t> checkpoint_step(const Path& prefix);

/// PREFIX.state.json, what a checkpoint holds beside its tensors.
Path checkpoint_state_json_path(const Path& prefix);

/// The prefixes BASENAME-STEP that the folder itself has an index of, by step, whatever the state
/// file says. None where there is no such folder.
std::vector<Path> find_checkpoints(const Path& model_dir, std::string_view basename = "model.ckpt");

/// The prefix that the state file of the folder names as the one that counts; when its index is
/// gone, the newest older one. A folder without a state file, or with a damaged one, has the
/// checkpoints that are found in it, and the one of the latest step counts.
std::optional<Path> latest_checkpoint(const Path& model_dir);

/// The prefixes that the state file lists and that are still there, oldest to newest; without a
/// state file those that are found in the folder.
std::vector<Path> list_checkpoints(const Path& model_dir);

/// The prefix that a user means by a path: a prefix, its .index file, a model_dir (its latest
/// checkpoint), a SavedModel or its variables folder. Throws NotFound.
Path resolve_checkpoint(const Path& path);

/// A checkpoint that was found whole and cannot be deleted while this lives.
struct OpenCheckpoint {
  CheckpointPin pin;
  BundleReader bundle;
  /// Empty when there is no such file, as beside TensorFlow's own checkpoints.
  std::string state_json;
};

/// Pins a checkpoint and reads all of it once. Throws NotFound or DataLoss.
OpenCheckpoint open_checkpoint(const Path& prefix);

/// The latest checkpoint, or, when that is damaged, the newest older one that is whole, after a
/// warning that says which and why; at last those that are in the folder without being listed. The
/// state that was saved with the tensors is a part of it: one that is missing, damaged or of
/// another checkpoint makes it damaged, and so does DataLoss from `check`. Nothing when the folder
/// has no checkpoints. Throws DataLoss when it has some and none is whole, because starting afresh
/// would throw away what they hold.
std::optional<OpenCheckpoint> restore_latest(
    const Path& model_dir, const std::function<void(const OpenCheckpoint&)>& check = {});

}  // namespace muster
