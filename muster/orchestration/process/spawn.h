#pragma once

#include <spawn.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::process {

/// A process that is about to be started with this one's environment, no signal blocked, and those
/// handled as usual that this program handles otherwise.
class Spawn {
 public:
  Spawn();
  ~Spawn();
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  /// `stream` is 0, 1 or 2.
  void give(int stream, int descriptor);
  void open(int stream, const Path& file, int flags, mode_t mode = 0);
  /// It leads a process group, so that all of it can be killed.
  pid_t start_in_own_group(const std::vector<std::string>& command);
  /// It continues when this process and its terminal are gone.
  pid_t start_in_own_session(const std::vector<std::string>& command);

 private:
  pid_t start(const std::vector<std::string>& command, int flags);

  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

/// Starts a process in a session of its own, which continues when this one and its terminal are
/// gone. It has no input; what it says on standard error is appended to `log`.
pid_t start_detached(const std::vector<std::string>& command, const Path& log);

}  // namespace muster::process
