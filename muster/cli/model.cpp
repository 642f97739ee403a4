#include "muster/cli/model.h"

#include "muster/cli/command.h"

namespace muster::cli {
namespace {

constexpr Command kModelCommands[] = {
    {"show", "print the signatures of a SavedModel, as saved_model_cli show does", add_model_show},
    {"run", "run a signature, as saved_model_cli run does", add_model_run},
    {"scan", "find unsafe operations in a SavedModel, as saved_model_cli scan does",
     add_model_scan},
};

}  // namespace

void add_model(CLI::App& command) { add_commands(command, kModelCommands); }

}  // namespace muster::cli
