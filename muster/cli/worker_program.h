#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/warm_program.h"
#include "muster/orchestration/process/task_process.h"
#include "muster/orchestration/process/warm_fork.h"

namespace muster::cli {

/// muster-torch, which loads libtorch once, while this process does something else, and whose forks
/// are the workers. They get SIGTERM when this process ends, and Ctrl-C does not reach them.
/// Belongs to one thread.
class WorkerProgram {
 public:
  /// A worker; it knows the program that it is a fork of.
  struct Worker {
    pid_t process = -1;
    std::shared_ptr<WarmProgram> program{};
  };

  /// Begins to load it.
  explicit WorkerProgram(Path program);

  /// A fork with this environment, no standard input, and both outputs going to `out`. A program
  /// that has been killed is loaded again. Throws Unavailable, naming it, when it does not load.
  Worker start(const std::vector<std::string>& arguments, int out);
  /// The same with an environment and streams of its own.
  Worker start(const process::ForkOptions& options);

  /// Nothing while it runs. A worker whose program has been killed counts as killed with it: it was
  /// sent SIGTERM, and how it ended is not known.
  static std::optional<process::EndOfProcess> ended(const Worker& worker);

 private:
  void load();

  const Path path_;
  std::shared_ptr<WarmProgram> program_{};
};

}  // namespace muster::cli
