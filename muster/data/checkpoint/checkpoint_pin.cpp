#include "muster/data/checkpoint/checkpoint_pin.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_lock.h"
#include "muster/data/checkpoint/bundle_files.h"

namespace muster {
namespace {

bool is_local(const Path& path) { return path.string().find("://") == std::string::npos; }

// -1 when there is no such file.
int open_index(const Path& index) {
  const int descriptor = ::open(index.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 && errno != ENOENT) throw_errno(errno, "opening " + index.string());
  return descriptor;
}

// False when the lock is held elsewhere.
bool try_to_lock(int descriptor, const Path& index) {
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno == EINTR) continue;
    const int error = errno;
    ::close(descriptor);
    throw_errno(error, "locking " + index.string());
  }
  return true;
}

bool has_name(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && status.st_nlink > 0;
}

}  // namespace

CheckpointPin::CheckpointPin(const Path& prefix) {
  const Path index = strip_file_scheme(bundle_index_path(prefix));
  const NotFound gone("checkpoint {} is not there, or was deleted just now", prefix.string());
  if (!is_local(index)) {
    if (!file_exists(index)) throw gone;
    return;
  }
  // A file without a name was deleted, or replaced by the same step saved again: look again.
  do {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    descriptor_ = open_index(index);
    if (descriptor_ < 0) throw gone;
    // The deleter holds its lock for no longer than an unlink takes.
    try {
      lock_file(descriptor_, LOCK_SH, index);
    } catch (const Error&) {
      ::close(descriptor_);
      throw;
    }
  } while (!has_name(descriptor_));
}

CheckpointPin::~CheckpointPin() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

CheckpointPin::CheckpointPin(CheckpointPin&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

CheckpointPin& CheckpointPin::operator=(CheckpointPin&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

bool remove_unless_pinned(const Path& prefix) {
  const Path index = strip_file_scheme(bundle_index_path(prefix));
  FileSystem& files = file_system_for(index);
  if (!is_local(index)) {
    files.remove(index);
    return true;
  }
  const int descriptor = open_index(index);
  if (descriptor < 0) return true;
  const bool free = try_to_lock(descriptor, index);
  // Removed under the lock, so that a pin taken after it sees a file without a name.
  if (free) files.remove(index);
  ::close(descriptor);
  return free;
}

}  // namespace muster
