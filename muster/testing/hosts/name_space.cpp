#include "muster/testing/hosts/name_space.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <thread>

#include "muster/base/error.h"

namespace muster::testing {
namespace {

constexpr int kKinds = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS;
constexpr const char* kVariable = "MUSTER_TEST_NAME_SPACE";

void succeed(int result, const std::string& doing) {
  if (result != 0) throw_errno(errno, doing);
}

// A thread is moved, not the process.
void in_a_thread(const std::function<void()>& function) {
  std::exception_ptr failure;
  std::thread([&] {
    try {
      function();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

void leave_the_others() {
  succeed(::unshare(kKinds), "making a network, mounts and a host name of their own");
  // Else what is mounted below would be seen by all.
  succeed(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "making mounts private");
}

void enter(const OpenFile& file) {
  succeed(::setns(file.get(), 0), "entering " + file.path().string());
}

}  // namespace

std::optional<std::string> NameSpace::refusal() {
  try {
    in_a_thread(leave_the_others);
  } catch (const Error& error) {
    return fmt::format("{}; it needs root", error.message());
  }
  for (const char* const program : {"/usr/sbin/ip", "/usr/sbin/tc", "/usr/bin/nsenter"}) {
    if (::access(program, X_OK) != 0) return fmt::format("{} is not installed", program);
  }
  return std::nullopt;
}

NameSpace::NameSpace(const std::string& host_name, const std::filesystem::path& hosts_file) {
  in_a_thread([&] {
    leave_the_others();
    succeed(::mount(hosts_file.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr),
            "mounting a hosts file");
    succeed(::sethostname(host_name.data(), host_name.size()), "naming a host");
    network_.emplace("/proc/thread-self/ns/net", O_RDONLY);
    mounts_.emplace("/proc/thread-self/ns/mnt", O_RDONLY);
    names_.emplace("/proc/thread-self/ns/uts", O_RDONLY);
  });
}

void NameSpace::run(const std::function<void()>& function) const {
  in_a_thread([&] {
    // Mounts can be entered by a thread that shares its folders with no other.
    succeed(::unshare(CLONE_FS), "taking folders apart");
    const auto folder = std::filesystem::current_path();
    for (const auto* file : {&*network_, &*mounts_, &*names_}) enter(*file);
    std::filesystem::current_path(folder);
    function();
  });
}

std::vector<std::string> NameSpace::words() const {
  return {"/usr/bin/nsenter",
          "--net=" + path_of(*network_),
          "--mount=" + path_of(*mounts_),
          "--uts=" + path_of(*names_),
          "--wd=" + std::filesystem::current_path().string(),
          "--"};
}

std::string NameSpace::variable() const {
  return fmt::format("{}={} {} {}", kVariable, path_of(*network_), path_of(*mounts_),
                     path_of(*names_));
}

std::string NameSpace::path_of(const OpenFile& file) {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), file.get());
}

void enter_name_space() {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr) return;
  const auto folder = std::filesystem::current_path();
  for (std::string_view rest = text; !rest.empty();) {
    const auto space = std::min(rest.find(' '), rest.size());
    enter(OpenFile(std::string(rest.substr(0, space)), O_RDONLY));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  std::filesystem::current_path(folder);
}

}  // namespace muster::testing
