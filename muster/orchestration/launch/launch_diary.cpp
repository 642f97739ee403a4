#include "muster/orchestration/launch/launch_diary_internal.h"

#include <fmt/core.h>

#include <chrono>

namespace muster::launch {

std::unique_ptr<TrainingLog> open_training_log(const LaunchOptions& options) {
  if (!options.training_log) return nullptr;
  const std::string program = Path(options.command.front()).filename().string();
  const std::string job = options.job_name.empty()
                              ? job_name("local", program, std::chrono::system_clock::now())
                              : options.job_name;
  return std::make_unique<TrainingLog>(
      *options.training_log,
      TrainingLogEntry{.job = job, .command = options.command, .hypothesis = options.hypothesis});
}

std::string outcome_text(int status, double seconds, const MergedLog& output) {
  std::string text = fmt::format("Exit status {} after {:.1f} s.", status, seconds);
  if (!output.final_loss().empty()) text += "\n" + output.final_loss();
  if (!output.last_evaluation().empty()) {
    text += fmt::format("\nEvaluation of step {}", output.last_evaluation());
  }
  return text;
}

}  // namespace muster::launch
