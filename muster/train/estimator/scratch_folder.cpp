#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "muster/base/error.h"
#include "muster/train/estimator/scratch_folder_internal.h"

namespace muster::internal {

Path make_temporary_folder(const std::string& name) {
  std::string path = (std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr) {
    throw_errno(errno, "making the temporary folder " + path);
  }
  return path;
}

ScratchFolder::ScratchFolder() : path_(make_temporary_folder("muster-scratch")) {}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_.string(), ignored);
}

}  // namespace muster::internal
