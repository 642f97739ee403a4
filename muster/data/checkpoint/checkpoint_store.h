#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/checkpoint/checkpoint_parts.h"
#include "muster/data/checkpoint/tensor.h"

namespace muster {

struct CheckpointStoreOptions {
  /// Older checkpoints beyond this number are deleted after each save; 0 keeps all.
  std::int64_t keep_checkpoint_max = 5;
  /// Interval in which one of the checkpoints to be deleted is kept for ever instead.
  double keep_checkpoint_every_n_hours = 10000;
  std::string basename = "model.ckpt";
  /// Data files of each checkpoint.
  int num_shards = 1;
  /// Seconds since 1970; the system's clock unless a test sets another.
  std::function<double()> now{};
};

/// The writer of a model_dir's checkpoints: BASENAME-STEP.{index,data-*,state.json} and the state
/// file `checkpoint`. A folder has one writer; readers use muster/data/checkpoint/checkpoint.h.
/// Calls come from one thread at a time.
class CheckpointStore {
 public:
  /// Creates the folder, and removes what a writer that crashed has left in it.
  explicit CheckpointStore(const Path& model_dir, CheckpointStoreOptions options = {});
  ~CheckpointStore();
  CheckpointStore(CheckpointStore&&) noexcept;
  CheckpointStore& operator=(CheckpointStore&&) noexcept;

  /// Writes a checkpoint and returns its prefix once it is on the disk and the state file names it.
  /// A reader sees all of it or nothing, also after a crash. Saving a step again replaces it. Then
  /// deletes down to keep_checkpoint_max, but never one that is pinned. When it throws
  /// (ResourceExhausted for a full disk, FailedPrecondition when the folder was moved away), the
  /// older checkpoints are as they were and nothing of the
  /// new one is left. With `parts` it waits for what others write, and throws Unavailable when one
  /// of them cannot.
  Path save(std::int64_t step, std::span<const TensorView> tensors,
            std::string_view state_json = {}, CheckpointParts* parts = nullptr);

  const Path& model_dir() const;
  std::optional<Path> latest() const { return latest_checkpoint(model_dir()); }
  std::vector<Path> list() const { return list_checkpoints(model_dir()); }
  std::optional<OpenCheckpoint> restore() const { return restore_latest(model_dir()); }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
