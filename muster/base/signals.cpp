#include "muster/base/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>

namespace muster {
namespace {

constexpr std::array kSignals{SIGTERM, SIGINT};

std::atomic<int> g_received{0};
std::atomic<int> g_pipe{-1};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may use nothing else");

// Only what is safe in a signal handler. The second signal means that the sender will not wait.
void handle(int signal) {
  const int saved_errno = errno;
  int none = 0;
  if (!g_received.compare_exchange_strong(none, signal)) ::_exit(128 + signal);
  const int pipe = g_pipe.load();
  if (pipe >= 0) {
    const char byte = 0;
    [[maybe_unused]] const auto written = ::write(pipe, &byte, 1);
  }
  errno = saved_errno;
}

}  // namespace

struct StopSignals::Impl {
  std::function<void(int)> on_signal;
  std::array<int, 2> pipe{-1, -1};
  int outer_pipe = -1;
  std::array<struct sigaction, kSignals.size()> previous{};
  std::jthread watcher;

  // Ends with the first byte: the handler's is 0, the destructor's is not.
  void watch() const {
    char byte = 1;
    while (::read(pipe[0], &byte, 1) < 0 && errno == EINTR) {
    }
    if (byte == 0 && on_signal) on_signal(g_received.load());
  }
};

StopSignals::StopSignals(std::function<void(int)> on_signal) : impl_(std::make_unique<Impl>()) {
  impl_->on_signal = std::move(on_signal);
  if (::pipe2(impl_->pipe.data(), O_CLOEXEC) != 0) {
    throw_errno(errno, "making a pipe for signals");
  }
  impl_->outer_pipe = g_pipe.exchange(impl_->pipe[1]);
  impl_->watcher = std::jthread([impl = impl_.get()] { impl->watch(); });
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &action, &impl_->previous[i]);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &impl_->previous[i], nullptr);
  }
  g_pipe = impl_->outer_pipe;
  const char nobody = 1;
  [[maybe_unused]] const auto written = ::write(impl_->pipe[1], &nobody, 1);
  impl_->watcher.join();
  ::close(impl_->pipe[0]);
  ::close(impl_->pipe[1]);
}

int StopSignals::received() noexcept { return g_received.load(std::memory_order_relaxed); }

void StopSignals::reset() noexcept { g_received = 0; }

}  // namespace muster
