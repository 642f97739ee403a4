#include <cstddef>
#include <filesystem>
#include <string>

#include "muster/tuning/study_hparams_internal.h"
#include "muster/tuning/trial_folder_internal.h"

namespace muster::tuning {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

void copy_bytes(const Path& from, const Path& to) {
  FileSystem& files = file_system_for(from);
  const auto in = files.open(from);
  const auto out = files.create(to);
  std::string bytes(kCopyBytes, '\0');
  while (const std::size_t count = in->read(bytes)) {
    out->write({bytes.data(), count});
  }
  out->sync();
  out->close();
}

}  // namespace

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
      copy_bytes(entry.path(), target);
    }
  }
}

}  // namespace muster::tuning
