#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_export_saved_model(CLI::App& command);

}  // namespace muster::cli
