#include <fmt/core.h>

#include <string>

#include "muster/orchestration/launch/launch_plan_internal.h"
#include "muster/orchestration/launch/secret.h"
#include "muster/orchestration/launch/shell_words_internal.h"

namespace muster::launch {
namespace {

std::string assignment(const std::string& entry) {
  const auto equals = entry.find('=');
  return entry.substr(0, equals + 1) + for_shell(entry.substr(equals + 1));
}

}  // namespace

std::string dry_run(const LaunchOptions& options) {
  check_launch(options);
  std::string text;
  if (!options.cluster.is_single && !has_own_secret()) {
    text +=
        fmt::format("export {}=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')\n", kSecretVariable);
  }
  for (const LaunchTask& task : tasks_of(options, reserve_ports(options))) {
    text += fmt::format("# {}\n", task.task.name());
    // Every line is for the host that its task is on.
    if (!task.host.empty()) text += fmt::format("# on {}\n", task.host);
    if (options.working_directory) {
      text += fmt::format("cd {} && ", for_shell(options.working_directory->string()));
    }
    for (const std::string& entry : task.environment) text += assignment(entry) + " ";
    if (task.processor) text += fmt::format("taskset -c {} ", *task.processor);
    for (const std::string& word : options.command) text += for_shell(word) + " ";
    text +=
        fmt::format("> {} 2>&1 &\n", for_shell((options.log_dir / (task.name + ".log")).string()));
  }
  return text;
}

}  // namespace muster::launch
