#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::process {

struct StartOptions {
  /// The program, searched for as a shell does, and its arguments.
  std::vector<std::string> command{};
  /// NAME=value, over the environment of this process.
  std::vector<std::string> environment{};
  /// Gets its standard output and error, at the end.
  Path log{};
  std::optional<Path> working_directory{};
  /// All of its threads run there.
  std::optional<int> processor{};
  /// Its standard input; none without a value. The caller closes it.
  std::optional<int> input{};
};

/// Starts a process that leads a process group of its own, gets SIGTERM
/// when the thread that calls this ends. Throws what the failed system call says, naming the
/// program: NotFound if there is none.
pid_t start_process(const StartOptions& options);

/// NAME=value: the environment of this process with these over it.
std::vector<std::string> environment_with(const std::vector<std::string>& more);

/// How a process ended: its exit status, or 128 + n for signal n.
struct EndOfProcess {
  int status = 0;
  bool killed = false;
};
/// Converts a status of waitpid().
EndOfProcess end_of(int wait_status);

/// Nothing while it runs. Once it has ended, what it left in its process group is killed too.
std::optional<EndOfProcess> reap(pid_t process);

}  // namespace muster::process
