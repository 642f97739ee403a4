#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/wait.h"

namespace muster {

struct WarmOptions {
  /// In a process group of its own, as its forks are then: what a terminal sends (Ctrl-C) reaches
  /// the process that started it alone.
  bool own_group = false;
};

/// A program with run_main(argc, argv, body) that has been loaded and waits: each start() is a fork
/// of it and has its main thread before `body`, in a few milliseconds where loading libtorch takes
/// half a second. A fork is a process like any other: it has its own arguments, environment and
/// folder, and its end is its own. What the libraries of the program read from the environment when
/// they were loaded (OMP_NUM_THREADS) is the same for all.
class WarmProgram {
 public:
  /// Parameters that a fork is started with.
  struct Start {
    /// After the program's name.
    std::vector<std::string> arguments{};
    /// All of it, as NAME=value.
    std::vector<std::string> environment{};
    Path working_directory{};
    int in = 0;
    int out = 1;
    int err = 2;
    /// SIGALRM ends it after this many seconds; 0: never.
    unsigned seconds = 0;
    /// Sent to it when the warm program ends, which it does with the process that started it; 0:
    /// none.
    int end_signal = 0;
    /// The program must have loaded, and the fork begun, by then.
    std::chrono::milliseconds limit{120'000};
  };

  /// Starts the program with the environment of this process. It is not asked for anything yet.
  /// Throws what the kernel says of a file that it cannot run.
  explicit WarmProgram(Path program, const WarmOptions& options = {});
  /// The program ends, and is killed where it does not, or was never asked for a fork; forks of it
  /// continue.
  ~WarmProgram();
  WarmProgram(const WarmProgram&) = delete;
  WarmProgram& operator=(const WarmProgram&) = delete;

  /// Throws Unavailable, naming the program, when it has ended or does not know how to be warm, and
  /// DeadlineExceeded when it does not answer; then it is killed.
  pid_t start(const Start& how);
  /// How a fork ended, as waitpid() has it; nothing while it runs.
  std::optional<int> ended(pid_t fork);
  /// Waits for its end.
  int wait(pid_t fork);

 private:
  struct Report {
    std::int32_t pid;
    std::int32_t status;
  };
  /// Nothing when the deadline passes first.
  std::optional<Report> next_report(const Deadline& deadline);

  const Path program_;
  int socket_ = -1;
  pid_t process_ = -1;
  bool was_asked_ = false;
  /// By fork: what has been reported and not been asked for.
  std::map<pid_t, int> statuses_;
};

namespace internal {

/// In run_main: where a WarmProgram started this process, serves its starts and returns in each
/// fork, with its arguments; does not return in this process.
std::optional<std::vector<std::string>> warm_arguments(const char* program);

}  // namespace internal
}  // namespace muster
