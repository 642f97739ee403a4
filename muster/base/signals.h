#pragma once

#include <functional>
#include <memory>

#include "muster/base/error.h"

namespace muster {

/// The run was asked to stop by a signal, and has saved what it had: programs exit with 128 +
/// signal.
class Interrupted : public Cancelled {
 public:
  template <typename... Args>
  explicit Interrupted(int signal, fmt::format_string<Args...> format, Args&&... args)
      : Cancelled(format, std::forward<Args>(args)...), signal_(signal) {}

  int signal() const noexcept { return signal_; }

 private:
  int signal_;
};

/// While it lives, SIGTERM and SIGINT ask for an orderly stop instead of ending the process; a
/// second signal ends it at once. Guards nest; the innermost is asked. Construct and destroy it in
/// one thread.
///
/// Built on sigaction and a pipe, not on masks: OpenBLAS has threads before main(), which no mask
/// set later reaches.
class StopSignals {
 public:
  /// `on_signal` is called in a thread of its own, at most once; it may be empty.
  explicit StopSignals(std::function<void(int signal)> on_signal = {});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came, or 0. Cheap: for a check every step.
  static int received() noexcept;
  /// Forgets it, so that a program may continue after an orderly stop.
  static void reset() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
