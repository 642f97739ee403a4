#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_model_show(CLI::App& command);
void add_model_run(CLI::App& command);
void add_model_scan(CLI::App& command);

}  // namespace muster::cli
