#include "muster/orchestration/tuning/trial_processes_internal.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <stdlib.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/open_file.h"
#include "muster/base/program.h"
#include "muster/orchestration/process/process_tree.h"
#include "muster/orchestration/process/warm_fork.h"
#include "muster/orchestration/tuning/trial_steps_internal.h"

namespace muster::tuning {
namespace {

// In the environment of all that a study starts, so that what outlives it can be found.
constexpr const char* kStudyVariable = "MUSTER_STUDY";

bool is_status_of_signal(int status) {
  return status > kStatusOfSignals && status < kStatusOfSignals + NSIG;
}

}  // namespace

void end_left_steps(const Path& folder, std::chrono::milliseconds grace) {
  check_allocation();
  end_steps(folder.string(), grace);
}

void end_leftovers(const Path& folder, std::chrono::milliseconds grace) {
  const std::string entry = fmt::format("{}={}", kStudyVariable, folder.string());
  process::end_leftovers(
      entry, grace, "an interrupted study of " + folder.string(),
      [](pid_t left) { log::info("ending what an interrupted study has left pid={}", left); });
}

TrialProcesses::TrialProcesses(TrialProcessOptions options) : options_(std::move(options)) {
  ::setenv(kStudyVariable, options_.folder.c_str(), 1);
  if (options_.is_warm) warm_.emplace(options_.program);
}

TrialProcesses::~TrialProcesses() { ::unsetenv(kStudyVariable); }

pid_t TrialProcesses::start(const std::vector<std::string>& arguments,
                            const std::vector<std::string>& environment, const Path& log) {
  if (warm_) return start_fork(arguments, environment, log);
  std::vector<std::string> command{options_.program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (options_.as_job_steps) {
    const std::string name = Path(log).replace_extension().string();
    // A step may outlive its srun, on a node where no process of ours sees it.
    end_steps(name, options_.grace);
    command = step_command(name, command);
  }
  return process::start_process(
      {.command = std::move(command), .environment = environment, .log = log});
}

std::optional<process::EndOfProcess> TrialProcesses::ended(pid_t process) {
  if (warm_) return process::reap_fork(*warm_, process);
  auto end = process::reap(process);
  // srun exits by itself where a signal has ended its task.
  if (end && options_.as_job_steps) end->killed = is_status_of_signal(end->status);
  return end;
}

void TrialProcesses::signal(pid_t process, int number) const {
  if (options_.as_job_steps) {
    ::kill(process, signal_for_step(number));
  } else {
    ::kill(warm_ ? process : -process, number);
  }
}

pid_t TrialProcesses::start_fork(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment, const Path& log) {
  const OpenFile out(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
  return process::start_fork(
      *warm_, {.arguments = arguments, .environment = environment, .out = out.get()});
}

}  // namespace muster::tuning
