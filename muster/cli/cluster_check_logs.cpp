#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "muster/cli/cluster.h"
#include "muster/data/checkpoint/step_log_check.h"

namespace muster::cli {
namespace {

std::string words(const StepLogSummary& log) {
  std::string text =
      fmt::format("{} {} steps {} to {}, {} replicas each", log.file.string(), log.identity.task,
                  log.first_step, log.last_step, log.identity.replicas);
  if (log.skipped_batches > 0) text += fmt::format(", {} batches skipped", log.skipped_batches);
  if (log.void_attempts > 0) text += fmt::format(", retried: {}", log.void_attempts);
  if (log.torn) text += ", ends inside a record";
  return text + (log.ended ? ", ended" : "");
}

}  // namespace

void add_cluster_check_logs(CLI::App& command) {
  const auto folders = std::make_shared<std::vector<std::string>>();
  command
      .add_option("dir", *folders,
                  "A model_dir, its ps_log or the folder of one ps task; several where ps tasks "
                  "have disks of their own")
      ->required();
  command.callback([folders] {
    const std::vector<Path> paths(folders->begin(), folders->end());
    for (const StepLogSummary& log : check_step_logs(paths)) fmt::print("{}\n", words(log));
    fmt::print("every step has every replica once\n");
  });
}

}  // namespace muster::cli
