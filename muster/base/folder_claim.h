#pragma once

#include "muster/base/file_system.h"

namespace muster {

/// Says to others on this machine that this process writes to a folder, until the end of the scope
/// or of the process, however that comes. Nothing is written into the folder for it, and locks of
/// the folder are left to others.
class FolderClaim {
 public:
  /// Makes the folder where it is missing. Throws FailedPrecondition, saying what to do, when
  /// another claim is not given up within a few seconds: one whose process was just killed is.
  /// Folders that are not local are taken to be free.
  explicit FolderClaim(const Path& folder);
  ~FolderClaim();
  FolderClaim(const FolderClaim&) = delete;
  FolderClaim& operator=(const FolderClaim&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace muster
