#include <fmt/core.h>
#include <signal.h>

#include <cstdlib>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/base/program.h"
#include "muster/base/wait.h"
#include "muster/orchestration/process/captured_process.h"
#include "muster/orchestration/tuning/trial_steps_internal.h"

namespace muster::tuning {
namespace {

constexpr std::chrono::milliseconds kStepNap{100};
/// A controller that is busy may lose what scancel asks for.
constexpr std::chrono::seconds kAskAgain{1};

// Script of a step: a program that ignores USR2, and a shell that answers the first one with TERM
// to it. TERM itself comes from Slurm alone, to all processes of the step; a second one would end
// the program before it has saved.
constexpr const char* kStepScript = R"sh((trap '' USR2; exec "$@") &
child=$! asked=
trap '[ -n "$asked" ] || kill -TERM "$child"; asked=1' USR2
trap 'asked=1' TERM
while wait "$child"; status=$?; kill -0 "$child" 2>/dev/null; do :; done
exit "$status")sh";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Their numbers, such as "12.3".
std::vector<std::string> steps_named(const std::string& name) {
  const auto answer =
      process::run_captured({.command = {"squeue", "--steps", "--noheader", "--format=%i %j",
                                         "--jobs=" + variable("SLURM_JOB_ID")}});
  if (answer.status != 0) {
    const auto why = lines_of(answer.err);
    throw Unavailable("squeue exited with status {}: {}", answer.status,
                      printable(why.empty() ? "it says nothing" : why.back()));
  }
  std::vector<std::string> found;
  for (const std::string_view line : lines_of(answer.out)) {
    const auto space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const std::string_view step = line.substr(space + 1);
    if (step == name || step.starts_with(name + "/")) found.emplace_back(line.substr(0, space));
  }
  return found;
}

}  // namespace

void check_allocation() {
  if (!variable("SLURM_JOB_ID").empty()) return;
  throw FailedPrecondition(
      "trials can be job steps only in an allocation of Slurm, and SLURM_JOB_ID is not set: start "
      "the study with salloc or sbatch, or as a job of `muster jobs submit training --backend "
      "slurm`");
}

std::vector<std::string> step_command(const std::string& name,
                                      const std::vector<std::string>& command) {
  // The binding of the step that this process is in is not that of another.
  std::vector<std::string> words{"env",
                                 "-u",
                                 "SLURM_CPU_BIND",
                                 "-u",
                                 "SLURM_MEM_BIND",
                                 fmt::format("SLURM_EXIT_ERROR={}", kExitTryAgain),
                                 "srun",
                                 "--exact",
                                 "--nodes=1",
                                 "--ntasks=1",
                                 "--input=none",
                                 "--export=ALL",
                                 "--job-name=" + name};
  const std::string cpus = variable("SLURM_CPUS_PER_TASK");
  if (!cpus.empty()) words.push_back("--cpus-per-task=" + cpus);
  words.insert(words.end(), {"bash", "-c", kStepScript, "trial"});
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

int signal_for_step(int number) {
  if (number == SIGTERM) return SIGUSR2;
  return number == SIGKILL ? SIGQUIT : number;
}

void end_steps(const std::string& name, std::chrono::milliseconds grace) {
  const Deadline polite = Deadline::after(grace);
  const Deadline last = Deadline::after(2 * grace);
  // By step, until when it has been asked.
  std::map<std::string, Deadline> asked;
  for (;;) {
    const auto left = steps_named(name);
    if (left.empty()) return;
    for (const std::string& step : left) {
      const auto [last_time, is_first] = asked.try_emplace(step, Deadline::after(kAskAgain));
      if (!is_first && !last_time->second.expired()) continue;
      last_time->second = Deadline::after(kAskAgain);
      const std::string signal = polite.expired() ? "KILL" : "USR2";
      const auto answer =
          process::run_captured({.command = {"scancel", "--signal=" + signal, step}});
      // It may have ended by itself.
      log::info("ending a step that was left without its study step={} signal={}{}", step, signal,
                answer.status == 0 ? "" : " scancel: " + printable(answer.err));
    }
    if (last.expired()) {
      throw Unavailable("step {}, which an interrupted study started, does not end", left.front());
    }
    std::this_thread::sleep_for(kStepNap);
  }
}

}  // namespace muster::tuning
