#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

namespace muster::process {

/// While it lives, SIGINT, SIGTERM, SIGHUP and SIGCHLD of this process wait in a queue, and SIGPIPE
/// is an error of write(). For a process with one thread.
class SignalQueue {
 public:
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  /// The next signal, waited for no longer than this.
  std::optional<int> next(std::chrono::milliseconds longest) const;

 private:
  int queue_ = -1;
  sigset_t previous_mask_{};
  struct sigaction previous_pipe_ {};
};

}  // namespace muster::process
