#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace muster {

/// A process of this host, as the kernel tells of it.
struct ProcessStat {
  char state = '?';
  pid_t parent = 0;
  /// When it began, in ticks since the boot.
  std::uint64_t start_ticks = 0;
  /// That it has used, in all of its threads.
  std::chrono::milliseconds processor_time{0};

  /// Whether only its parent has not taken note of its end.
  bool has_ended() const { return state == 'Z' || state == 'X'; }
};

/// Nothing for a process that is gone.
std::optional<ProcessStat> process_stat(pid_t process);

}  // namespace muster
