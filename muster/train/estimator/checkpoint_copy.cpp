#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/checkpoint/bundle_files.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/train/estimator/checkpoint_copy_internal.h"

namespace muster::internal {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

void copy_whole_file(const Path& from, const Path& to) {
  const auto source = file_system_for(from).open(from);
  AtomicFile copy(to);
  std::vector<char> bytes(kCopyBytes);
  while (const std::size_t count = source->read(bytes)) copy.write({bytes.data(), count});
  copy.commit();
}

// The index is the last one.
std::vector<std::string> files_of(const Path& prefix) {
  const std::string begin = prefix.filename().string() + ".";
  const std::string index = bundle_index_path(prefix).filename().string();
  std::vector<std::string> names;
  for (auto& name : file_system_for(prefix).list(prefix.parent_path())) {
    if (name.starts_with(begin) && name != index) names.push_back(std::move(name));
  }
  names.push_back(index);
  return names;
}

}  // namespace

Path copy_checkpoint(const Path& prefix, const Path& folder) {
  // It is whole, and stays until it is copied.
  const OpenCheckpoint open = open_checkpoint(prefix);
  file_system_for(folder).create_directories(folder);
  for (const auto& file : files_of(prefix)) {
    copy_whole_file(prefix.parent_path() / file, folder / file);
  }
  return folder / prefix.filename();
}

void remove_checkpoint(const Path& prefix) {
  auto names = files_of(prefix);
  std::ranges::reverse(names);
  for (const auto& name : names) {
    file_system_for(prefix).remove(prefix.parent_path() / name);
  }
}

}  // namespace muster::internal
