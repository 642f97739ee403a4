#include "muster/base/folder_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/wait.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kNap{50};

bool is_local(const Path& folder) { return folder.string().find("://") == std::string::npos; }

}  // namespace

FolderClaim::FolderClaim(const Path& folder) {
  file_system_for(folder).create_directories(folder);
  const Path local = strip_file_scheme(folder);
  if (!is_local(local)) return;
  descriptor_ = ::open(local.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) throw_errno(errno, fmt::format("opening {}", folder.string()));
  const Deadline deadline = Deadline::after(kPatience);
  while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;  // A disk without locks.
    if (deadline.expired()) {
      ::close(descriptor_);
      throw FailedPrecondition(
          "another process writes to {}; wait for its end, stop it, or take another folder",
          folder.string());
    }
    std::this_thread::sleep_for(kNap);
  }
}

FolderClaim::~FolderClaim() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace muster
