#include "muster/base/folder_claim.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/object_store.h"
#include "muster/base/wait.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kNap{50};

// A name that no two folders of this machine share, whatever their paths.
std::string name_of(const Path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    throw_errno(errno, fmt::format("looking at {}", folder.string()));
  }
  return fmt::format("muster-writes-{}-{}", status.st_dev, status.st_ino);
}

// Takes an abstract socket's name, which the system gives back with the process. False when another
// has it.
bool take_name(int descriptor, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Behind the zero that makes it abstract.
  std::ranges::copy(name, address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), size) == 0) return true;
  if (errno == EADDRINUSE) return false;
  throw_errno(errno, "taking the name " + name);
}

/// By the objects that stand for them, which do not move: claims of folders in object stores.
class ClaimsInStores {
 public:
  void add(const FolderClaim* owner, std::shared_ptr<void> claim) {
    const std::lock_guard lock(mutex_);
    claims_[owner] = std::move(claim);
  }

  void end(const FolderClaim* owner) {
    std::shared_ptr<void> ended;  // Given up outside of the lock: a store is asked for it.
    const std::lock_guard lock(mutex_);
    const auto found = claims_.find(owner);
    if (found == claims_.end()) return;
    ended = std::move(found->second);
    claims_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::map<const FolderClaim*, std::shared_ptr<void>> claims_;
};

ClaimsInStores& claims_in_stores() {
  static auto* const instance = new ClaimsInStores;
  return *instance;
}

}  // namespace

FolderClaim::FolderClaim(const Path& folder) {
  file_system_for(folder).create_directories(folder);
  if (ObjectStore* store = object_store_for(folder))
    claims_in_stores().add(this, store->claim(folder));
  if (is_remote(folder)) return;
  const Path local = strip_file_scheme(folder);
  const std::string name = name_of(local);
  descriptor_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor_ < 0) throw_errno(errno, "making a socket");
  const Deadline deadline = Deadline::after(kPatience);
  while (!take_name(descriptor_, name)) {
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
  claims_in_stores().end(this);
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace muster
