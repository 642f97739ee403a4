#include <filesystem>

#include "muster/base/copy_whole_file.h"
#include "muster/tuning/study_hparams_internal.h"
#include "muster/tuning/trial_folder_internal.h"

namespace muster::tuning {

void copy_trial_folder(const Path& from, const Path& to) {
  FileSystem& files = file_system_for(to);
  files.remove_all(to);
  files.create_directories(to);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
    const Path target = to / entry.path().lexically_relative(from);
    if (entry.is_symlink()) {
      std::filesystem::copy_symlink(entry.path(), target);
    } else if (entry.is_directory()) {
      files.create_directories(target);
    } else if (entry.is_regular_file() && !is_hparams_file(entry.path())) {
      copy_whole_file(entry.path(), target);
    }
  }
}

}  // namespace muster::tuning
