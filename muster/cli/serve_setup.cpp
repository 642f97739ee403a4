#include "muster/cli/serve_setup.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>

#include "muster/base/log.h"

namespace muster::cli {
namespace {

std::atomic<int> g_reload_pipe{-1};

void on_hang_up(int) {
  const int saved_errno = errno;
  const char byte = 'h';
  [[maybe_unused]] const auto written = ::write(g_reload_pipe.load(), &byte, 1);
  errno = saved_errno;
}

}  // namespace

SignalPipe::SignalPipe() {
  if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw_errno(errno, "making a pipe for signals");
  g_reload_pipe = ends_[1];
  struct sigaction action {};
  action.sa_handler = on_hang_up;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGHUP, &action, nullptr);
  stop_.emplace([this](int) {
    const char byte = 's';
    [[maybe_unused]] const auto written = ::write(ends_[1], &byte, 1);
  });
}

SignalPipe::~SignalPipe() { ::signal(SIGHUP, SIG_DFL); }

char SignalPipe::wait(std::chrono::milliseconds time) {
  pollfd descriptor{.fd = ends_[0], .events = POLLIN, .revents = 0};
  const int ready = ::poll(&descriptor, 1, static_cast<int>(time.count()));
  char byte = 0;
  if (ready > 0 && ::read(ends_[0], &byte, 1) == 1) return byte;
  return 0;
}

std::chrono::milliseconds to_time(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::llround(seconds * 1000)));
}

std::optional<std::uint16_t> port_of(const char* flag, const std::string& text) {
  if (text == "auto") return 0;
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw UsageError("{} must be a number from 0 to 65535, or auto: {}", flag, text);
  }
  if (port == 0) return std::nullopt;
  return port;
}

serving::Access access_of(const ServeFlags& flags) {
  serving::Access access;
  if (!flags.tokens_file.empty()) access = serving::Access::from_file(flags.tokens_file);
  if (access.has_short_token()) {
    log::warning(
        "--tokens-file {} has a token that can be guessed: give each {} characters or more",
        flags.tokens_file, serving::Access::kSafeTokenCharacters);
  }
  if (flags.allow_remote_admin) access.allow_remote_admin();
  return access;
}

void allow_descriptors(std::size_t connections) {
  constexpr rlim_t kMost = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, kMost);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur < connections) {
    log::warning(
        "the hard limit of open files (ulimit -Hn) is {}: fewer than the {} connections "
        "of --rest-api-max-connections fit",
        limit.rlim_cur, connections);
  }
}

}  // namespace muster::cli
