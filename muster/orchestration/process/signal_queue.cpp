#include "muster/orchestration/process/signal_queue.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "muster/base/error.h"

namespace muster::process {

SignalQueue::SignalQueue() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::sigaddset(&signals, signal);
  queue_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (queue_ < 0) throw_errno(errno, "making a queue for signals");
  ::sigprocmask(SIG_BLOCK, &signals, &previous_mask_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &previous_pipe_);
}

SignalQueue::~SignalQueue() {
  ::sigaction(SIGPIPE, &previous_pipe_, nullptr);
  ::sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
  ::close(queue_);
}

std::optional<int> SignalQueue::next(std::chrono::milliseconds longest) const {
  pollfd waited{.fd = queue_, .events = POLLIN, .revents = 0};
  if (::poll(&waited, 1, static_cast<int>(longest.count())) <= 0) return std::nullopt;
  signalfd_siginfo info{};
  if (::read(queue_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

}  // namespace muster::process
