#pragma once

#include <fmt/core.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/program.h"
#include "muster/base/wait.h"
#include "muster/orchestration/launch/local_cluster.h"
#include "muster/orchestration/process/descriptor.h"
#include "muster/orchestration/process/task_process.h"

namespace muster::launch {

/// "status=1" or "signal=9".
inline std::string in_words(const process::EndOfProcess& end) {
  return end.killed ? fmt::format("signal={}", end.status - kStatusOfSignals)
                    : fmt::format("status={}", end.status);
}

/// How long a task that was restarted so often waits for the next start.
inline std::chrono::milliseconds restart_delay(std::int64_t restarts) {
  constexpr std::chrono::milliseconds kFirstRestartDelay{250};
  constexpr std::chrono::milliseconds kLongestRestartDelay{8000};
  const auto doubled =
      kFirstRestartDelay * (std::int64_t{1} << std::min<std::int64_t>(restarts, 10));
  return std::min<std::chrono::milliseconds>(doubled, kLongestRestartDelay);
}

/// A task and its process, over all its starts.
struct Running {
  LaunchTask task;
  std::size_t log = 0;
  pid_t pid = -1;
  Deadline::Clock::time_point started{};
  std::optional<process::EndOfProcess> end{};
  std::int64_t restarts = 0;
  std::optional<Deadline::Clock::time_point> restart_at{};
  std::optional<Deadline::Clock::time_point> stop_at{};
  std::optional<Deadline::Clock::time_point> kill_at{};
  /// To end: then how it ends says nothing.
  bool was_asked = false;
  /// By scale(), when others had run for a while.
  bool is_late = false;
  /// Connection to a task on another host, which takes signals by name.
  std::unique_ptr<process::Descriptor> control{};

  /// Sends a signal to it and to what it has started.
  void send(int signal);
  bool runs() const { return pid > 0; }
  bool is_over() const { return !runs() && !restart_at; }
};

}  // namespace muster::launch
