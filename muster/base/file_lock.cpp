#include "muster/base/file_lock.h"

#include <sys/file.h>

#include <cerrno>
#include <optional>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/wait.h"

namespace muster {
namespace {

constexpr std::chrono::milliseconds kLockNap{10};

bool has_no_locks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

}  // namespace

bool lock_file(int descriptor, int operation, const Path& path,
               std::chrono::milliseconds patience) {
  const Deadline deadline = Deadline::after(patience);
  std::optional<BlockingRegion> reported;
  // Asked for again and again: flock() itself waits without end.
  while (::flock(descriptor, operation | LOCK_NB) != 0) {
    if (has_no_locks(errno)) return false;
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) throw_errno(errno, "locking " + path.string());
    if (deadline.expired()) {
      throw DeadlineExceeded(
          "another process has locked {} for {:.1f} s; end it (`lslocks` names it), and try again",
          path.string(), std::chrono::duration<double>(patience).count());
    }
    if (!reported) {
      reported.emplace([path] {
        return fmt::format("the lock of {}, which another process holds", path.string());
      });
    }
    std::this_thread::sleep_for(kLockNap);
  }
  return true;
}

}  // namespace muster
