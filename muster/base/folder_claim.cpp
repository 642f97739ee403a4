#include "muster/base/folder_claim.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

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
  // After the zero that makes it abstract.
  std::ranges::copy(name, address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), size) == 0) return true;
  if (errno == EADDRINUSE) return false;
  throw_errno(errno, "taking the name " + name);
}

int claim_socket() {
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) throw_errno(errno, "making a socket");
  return descriptor;
}

}  // namespace

FolderClaim::FolderClaim(const Path& folder) {
  file_system_for(folder).create_directories(folder);
  if (SharedFileSystem* files = shared_file_system_for(folder)) in_store_ = files->claim(folder);
  if (is_remote(folder)) return;
  const Path local = strip_file_scheme(folder);
  const std::string name = name_of(local);
  descriptor_ = claim_socket();
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
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool is_claimed(const Path& folder) {
  const Path local = strip_file_scheme(folder);
  std::error_code error;
  if (is_remote(folder) || !std::filesystem::is_directory(local, error)) return false;
  const std::string name = name_of(local);
  const int descriptor = claim_socket();
  const bool is_free = take_name(descriptor, name);
  ::close(descriptor);
  return !is_free;
}

}  // namespace muster
