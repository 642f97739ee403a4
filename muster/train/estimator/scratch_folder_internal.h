#pragma once

#include "muster/base/file_system.h"

namespace muster::internal {

/// A temporary folder of this process, which is removed with all that is in it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const Path& path() const { return path_; }

 private:
  Path path_;
};

}  // namespace muster::internal
