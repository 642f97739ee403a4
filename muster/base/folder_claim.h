#pragma once

#include <memory>

#include "muster/base/file_system.h"

namespace muster {

/// Says to others that this process writes to a folder, until the end of the scope or of the
/// process, however that comes. On a disk, to others of this machine: nothing is written into the
/// folder for it, and locks of the folder are left to others. In a store, to everybody, as
/// SharedFileSystem::claim() says.
class FolderClaim {
 public:
  /// Makes the folder where it is missing. Throws FailedPrecondition, saying what to do, when
  /// another claim is not given up within a few seconds: one whose process was just killed is.
  /// Folders of other file systems are taken to be free.
  explicit FolderClaim(const Path& folder);
  ~FolderClaim();
  FolderClaim(const FolderClaim&) = delete;
  FolderClaim& operator=(const FolderClaim&) = delete;

 private:
  int descriptor_ = -1;
  /// Ends the claim of a folder in a store when it goes.
  std::shared_ptr<void> in_store_;
};

/// Whether a process of this machine holds a claim of a folder on a disk now. False for a folder
/// that is not there, and for those of other file systems.
bool is_claimed(const Path& folder);

}  // namespace muster
