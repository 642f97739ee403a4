#pragma once

#include <string>

#include "muster/cli/command.h"

namespace muster::cli {

/// Prints the tensors of a checkpoint or of a file of weights.
void show_checkpoint(const std::string& path, bool as_json);

void add_checkpoint_convert(CLI::App& command);

}  // namespace muster::cli
