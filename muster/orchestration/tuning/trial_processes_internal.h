#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/warm_program.h"
#include "muster/orchestration/process/task_process.h"

namespace muster::tuning {

/// Ends job steps that a study that was killed has left running in this allocation of Slurm, on any
/// node: those of an allocation that is over were ended by Slurm. Trials are asked to save first.
/// Throws FailedPrecondition where this process is in no allocation, and Unavailable as
/// end_steps().
void end_left_steps(const Path& folder, std::chrono::milliseconds grace);

/// Ends what a study that was killed has left running on this host: trials are asked to save first.
/// The folder is that of the study's state, an absolute path. Throws Unavailable for what does not
/// end.
void end_leftovers(const Path& folder, std::chrono::milliseconds grace);

struct TrialProcessOptions {
  std::string program{};
  /// Folder of the study's state, an absolute path.
  Path folder{};
  /// Trials are forks of the program, which is loaded once.
  bool is_warm = false;
  /// Trials are job steps of the Slurm allocation that this process is in.
  bool as_job_steps = false;
  /// How long a step that was left over may take to save and exit.
  std::chrono::milliseconds grace{};
};

/// Starts trials as processes of their own, as forks of the loaded program, or as job steps. While
/// it lives, all that this process starts can be found by end_leftovers().
class TrialProcesses {
 public:
  explicit TrialProcesses(TrialProcessOptions options);
  ~TrialProcesses();
  TrialProcesses(const TrialProcesses&) = delete;
  TrialProcesses& operator=(const TrialProcesses&) = delete;

  /// Starts the program and appends its output to `log`, which is the trial's own. Throws
  /// Unavailable where Slurm does not answer.
  pid_t start(const std::vector<std::string>& arguments,
              const std::vector<std::string>& environment, const Path& log);
  /// Nothing while it runs.
  std::optional<process::EndOfProcess> ended(pid_t process);
  /// SIGTERM, to save and exit, or SIGKILL.
  void signal(pid_t process, int number) const;

 private:
  pid_t start_fork(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment, const Path& log);

  const TrialProcessOptions options_;
  std::optional<WarmProgram> warm_;
};

}  // namespace muster::tuning
