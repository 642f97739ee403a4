#pragma once

#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"

namespace muster {

/// A folder that is being filled under a temporary name: removed with all in it at the end of the
/// scope, unless it was given its own name before.
class UnpublishedFolder {
 public:
  /// The folder is there.
  explicit UnpublishedFolder(Path path) : path_(std::move(path)) {}
  ~UnpublishedFolder() {
    if (is_published_) return;
    try {
      file_system_for(path_).remove_all(path_);
    } catch (const Error& error) {
      log::warning("could not clean up {}: {}", path_.string(), error.what());
    }
  }
  UnpublishedFolder(const UnpublishedFolder&) = delete;
  UnpublishedFolder& operator=(const UnpublishedFolder&) = delete;

  const Path& path() const { return path_; }
  void published() { is_published_ = true; }

 private:
  Path path_;
  bool is_published_ = false;
};

}  // namespace muster
