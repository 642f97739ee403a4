#pragma once

#include "muster/base/file_system.h"

namespace muster {

/// Keeps a checkpoint from being deleted while it is read, in this process or another one on the
/// same files: a shared lock on PREFIX.index, which the kernel drops when the process ends. File
/// systems other than the local one have no such locks; there it only says that the file was there.
class CheckpointPin {
 public:
  /// Throws NotFound when the checkpoint is gone.
  explicit CheckpointPin(const Path& prefix);
  ~CheckpointPin();
  CheckpointPin(CheckpointPin&& other) noexcept;
  CheckpointPin& operator=(CheckpointPin&& other) noexcept;

 private:
  int descriptor_ = -1;
};

/// Removes PREFIX.index, and with it the checkpoint's existence, unless the checkpoint is pinned.
/// False when it is pinned.
bool remove_unless_pinned(const Path& prefix);

}  // namespace muster
