#include <fmt/core.h>

#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/cli/cluster.h"
#include "muster/cli/command.h"
#include "muster/platform/cluster/explanation.h"
#include "muster/platform/cluster/tf_config.h"

namespace muster::cli {
namespace {

// JSON begins with a brace; anything else names a file.
std::string tf_config_text(const std::string& file_or_json) {
  const auto first = file_or_json.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || file_or_json[first] == '{') return file_or_json;
  try {
    return read_file(file_or_json, kMaxTfConfigBytes);
  } catch (const NotFound& error) {
    throw UsageError("--tf-config: {}", error.message());
  }
}

struct ClusterOptions {
  std::string tf_config{};
  bool as_json = false;
};

void add_explain(CLI::App& command) {
  const auto options = std::make_shared<ClusterOptions>();
  CLI::Option* given =
      command.add_option("--tf-config", options->tf_config,
                         "Explain this TF_CONFIG, a JSON text or a file that holds one");
  add_json_flag(command, options->as_json, "One JSON object");
  command.callback([options, given] {
    const EnvironmentVariables variables =
        given->count() == 0
            ? variables_of_this_process()
            : EnvironmentVariables{{"TF_CONFIG", tf_config_text(options->tf_config)}};
    if (options->as_json) {
      fmt::print("{}\n", explain_json(variables));
    } else {
      fmt::print("{}", explain(variables));
    }
  });
}

constexpr Command kClusterCommands[] = {
    {"explain", "print a task's environment and its errors", add_explain},
    {"check-logs", "verify that the logs of ps tasks have each replica of each step once",
     add_cluster_check_logs},
};

}  // namespace

void add_cluster(CLI::App& command) { add_commands(command, kClusterCommands); }

}  // namespace muster::cli
