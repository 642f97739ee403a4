#include "muster/console/file_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/wait.h"

namespace muster::console {
namespace {

constexpr std::uint32_t kChanges = IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                                   IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW;
constexpr std::size_t kBufferBytes = 64 << 10;

}  // namespace

FileWatch::FileWatch(OnChange on_change, std::chrono::milliseconds pause)
    : on_change_(std::move(on_change)), pause_(pause) {
  inotify_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (inotify_ < 0) throw_errno(errno, "watching folders (see fs.inotify.max_user_instances)");
  wake_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_ < 0) {
    const int error = errno;
    ::close(inotify_);
    throw_errno(error, "watching folders");
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

FileWatch::~FileWatch() {
  thread_.request_stop();
  ::eventfd_write(wake_, 1);
  thread_.join();
  ::close(wake_);
  ::close(inotify_);
}

void FileWatch::add(const Path& folder) {
  const std::lock_guard lock(mutex_);
  if (!folders_.insert(folder).second) return;
  const int watch = ::inotify_add_watch(inotify_, folder.c_str(), kChanges);
  if (watch >= 0) {
    watched_[watch] = folder;
    added_.insert(folder);
    ::eventfd_write(wake_, 1);
    return;
  }
  const int error = errno;
  folders_.erase(folder);
  if (error == ENOENT || error == ENOTDIR || std::exchange(has_warned_, true)) return;
  log::warning(
      "{} is not watched, so pages do not follow it: {}; sysctl fs.inotify.max_user_watches raises "
      "how many folders can be",
      folder.string(), std::generic_category().message(error));
}

std::set<Path> FileWatch::take_added() {
  eventfd_t ignored = 0;
  ::eventfd_read(wake_, &ignored);
  const std::lock_guard lock(mutex_);
  return std::exchange(added_, {});
}

void FileWatch::read_changes(std::set<Path>& changed) {
  alignas(inotify_event) std::array<char, kBufferBytes> buffer{};
  for (;;) {
    const ssize_t size = ::read(inotify_, buffer.data(), buffer.size());
    if (size <= 0) return;
    const std::lock_guard lock(mutex_);
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += sizeof(inotify_event) + event->len;
      if ((event->mask & IN_Q_OVERFLOW) != 0) changed.insert(folders_.begin(), folders_.end());
      const auto found = watched_.find(event->wd);
      if (found == watched_.end()) continue;
      changed.insert(found->second);
      if ((event->mask & IN_IGNORED) == 0) continue;
      folders_.erase(found->second);
      watched_.erase(found);
    }
  }
}

void FileWatch::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::array<pollfd, 2> waited{pollfd{.fd = inotify_, .events = POLLIN, .revents = 0},
                                 pollfd{.fd = wake_, .events = POLLIN, .revents = 0}};
    if (::poll(waited.data(), waited.size(), -1) < 0 && errno != EINTR) {
      log::error("folders are no longer watched: {}", std::generic_category().message(errno));
      return;
    }
    std::set<Path> changed = take_added();
    read_changes(changed);
    if (changed.empty() || stop.stop_requested()) continue;
    on_change_(changed);
    // Changes that come meanwhile are reported together.
    nap(stop, pause_);
  }
}

}  // namespace muster::console
