#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "muster/base/error.h"
#include "muster/train/estimator/scratch_folder_internal.h"

namespace muster::internal {

ScratchFolder::ScratchFolder() {
  std::string path = (std::filesystem::temp_directory_path() / "muster-scratch-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) {
    throw_errno(errno, "making the temporary folder " + path);
  }
  path_ = path;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_.string(), ignored);
}

}  // namespace muster::internal
