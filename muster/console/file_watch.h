#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::console {

/// Tells when something in some folders has changed, by inotify: while nothing changes, nothing is
/// done. Folders inside are watched when they are added themselves. One that is added counts as
/// changed, too: changes before it was watched have not been reported.
class FileWatch {
 public:
  /// Called in a thread of its own with the folders that were added, and those in which something
  /// was created, written, renamed or removed.
  using OnChange = std::function<void(const std::set<Path>& folders)>;

  /// Changes are told together, at most once in `pause`.
  explicit FileWatch(OnChange on_change,
                     std::chrono::milliseconds pause = std::chrono::milliseconds(250));
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  /// A folder that is watched already, or that has gone, is skipped. May be called from any
  /// thread, also from `on_change`.
  void add(const Path& folder);

 private:
  void run(const std::stop_token& stop);
  std::set<Path> take_added();
  void read_changes(std::set<Path>& changed);

  OnChange on_change_;
  std::chrono::milliseconds pause_;
  int inotify_ = -1;
  int wake_ = -1;
  std::mutex mutex_;
  std::map<int, Path> watched_;
  std::set<Path> folders_;
  /// Not told of yet.
  std::set<Path> added_;
  bool has_warned_ = false;
  std::jthread thread_;
};

}  // namespace muster::console
