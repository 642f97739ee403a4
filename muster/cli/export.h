#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_export_graph_def(CLI::App& command);
void add_export_onnx(CLI::App& command);
void add_export_saved_model(CLI::App& command);

}  // namespace muster::cli
