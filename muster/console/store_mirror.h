#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::console {

/// A folder of this host that follows a folder with runs in a store ("s3://bucket/runs"): event
/// files, records, notes and studies, and nothing else. A thread looks at the store again and
/// again, and copies what is new; of event files only what they have grown by.
class StoreMirror {
 public:
  /// The mirror lies in `cache`, where an earlier one is continued. Throws NotFound where there is
  /// no such folder in the store.
  StoreMirror(Path remote, const Path& cache, std::chrono::milliseconds pause);
  StoreMirror(const StoreMirror&) = delete;
  StoreMirror& operator=(const StoreMirror&) = delete;

  const Path& remote() const { return remote_; }
  const Path& folder() const { return folder_; }

 private:
  /// Size and time of change of a file in the store when it was copied.
  struct Copied {
    std::uint64_t bytes = 0;
    std::int64_t modified_ns = 0;
  };

  void run(const std::stop_token& stop);
  void look(const std::stop_token& stop);
  void look_at(const Path& below, int depth, const std::stop_token& stop);
  void copy(const Path& below, const FileStatus& status);
  void remove_gone();

  Path remote_;
  Path folder_;
  std::chrono::milliseconds pause_;
  // By path below the folder.
  std::map<Path, Copied> copied_;
  // Files that this look has seen.
  std::set<Path> seen_;
  std::string problem_;
  std::jthread thread_;
};

struct StoreMirrorOptions {
  /// Folder for the mirrors of remote folders; empty: remote folders are refused.
  Path cache{};
  /// Time between two looks at a store; longer where a look takes long.
  std::chrono::milliseconds pause{10'000};
};

/// The mirrors of those of some folders that lie in a store.
class StoreMirrors {
 public:
  StoreMirrors(std::vector<Path> folders, const StoreMirrorOptions& options);

  /// The folders, mirrors in place of those in stores.
  const std::vector<Path>& folders() const { return folders_; }
  /// The place in the store of a folder inside a mirror; the folder itself elsewhere.
  Path original_of(const Path& folder) const;
  bool is_mirrored(const Path& folder) const { return original_of(folder) != folder; }

 private:
  std::vector<Path> folders_;
  std::vector<std::unique_ptr<StoreMirror>> mirrors_;
};

}  // namespace muster::console
