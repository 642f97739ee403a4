#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// `muster cluster check-logs`: reads the logs of ps tasks, and says whether they are whole.
void add_cluster_check_logs(CLI::App& command);

}  // namespace muster::cli
