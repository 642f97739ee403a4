#include "muster/cli/export.h"

#include "muster/cli/command.h"

namespace muster::cli {
namespace {

constexpr Command kExportCommands[] = {
    {"graphdef", "write one signature as a GraphDef with constants for variables",
     add_export_graph_def},
    {"onnx", "write one signature as an ONNX model", add_export_onnx},
    {"savedmodel", "write a SavedModel from the graph and a checkpoint of a model_dir",
     add_export_saved_model},
};

}  // namespace

void add_export(CLI::App& command) { add_commands(command, kExportCommands); }

}  // namespace muster::cli
