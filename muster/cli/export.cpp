#include "muster/cli/export.h"

#include "muster/cli/command.h"

namespace muster::cli {
namespace {

constexpr Command kExportCommands[] = {
    {"savedmodel", "join the graph of a model_dir with a checkpoint into a SavedModel",
     add_export_saved_model},
};

}  // namespace

void add_export(CLI::App& command) { add_commands(command, kExportCommands); }

}  // namespace muster::cli
