#pragma once

#include <string>

#include "muster/base/file_system.h"

namespace muster::internal {

/// Makes a folder with a name of its own, "NAME-aB3dE6", among the system's temporary files.
Path make_temporary_folder(const std::string& name);

/// A temporary folder of this process, which is removed with all that is in it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const Path& path() const { return path_; }

 private:
  const Path path_;
};

}  // namespace muster::internal
