#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/warm_program.h"
#include "muster/launch/task_process.h"

namespace muster::tuning {

/// Ends what a study that was killed has left running: trials are asked to save first. The folder
/// is that of the study's state, an absolute path. Throws Unavailable for what does not end.
void end_leftovers(const Path& folder, std::chrono::milliseconds grace);

/// Starts trials as processes of their own, or as forks of the loaded program. While it lives, all
/// that this process starts can be found by end_leftovers().
class TrialProcesses {
 public:
  TrialProcesses(std::string program, bool is_warm, const Path& folder);
  ~TrialProcesses();
  TrialProcesses(const TrialProcesses&) = delete;
  TrialProcesses& operator=(const TrialProcesses&) = delete;

  /// What it prints goes behind what is in `log`.
  pid_t start(const std::vector<std::string>& arguments,
              const std::vector<std::string>& environment, const Path& log);
  /// Nothing while it runs.
  std::optional<launch::EndOfProcess> ended(pid_t process);
  void signal(pid_t process, int number) const;

 private:
  pid_t start_fork(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment, const Path& log);

  const std::string program_;
  std::optional<WarmProgram> warm_;
};

}  // namespace muster::tuning
