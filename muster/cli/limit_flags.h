#pragma once

#include <CLI/CLI.hpp>

#include "muster/saved_model/executor/run_limits.h"

namespace muster::cli {

/// The flags that say what a model may use: --max-live-bytes, --max-total-bytes, --max-operations,
/// --max-calls and --max-seconds.
void add_limit_flags(CLI::App& command, executor::RunLimits& limits);

}  // namespace muster::cli
