#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster {

/// A file or folder of this machine that is open until the end of the scope, for calls that take a
/// descriptor.
class OpenFile {
 public:
  /// `flags` are open()'s, `mode` that of a file that is made. Throws, naming the path.
  OpenFile(Path path, int flags, mode_t mode = 0666)
      : path_(std::move(path)), descriptor_(::open(path_.c_str(), flags | O_CLOEXEC, mode)) {
    if (descriptor_ < 0) throw_errno(errno, "opening " + path_.string());
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int get() const { return descriptor_; }
  const Path& path() const { return path_; }

  /// All of it. Throws, naming the path.
  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw_errno(errno, "writing " + path_.string());
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

 private:
  Path path_;
  int descriptor_;
};

}  // namespace muster
