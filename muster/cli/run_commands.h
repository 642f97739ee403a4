#pragma once

#include <CLI/CLI.hpp>
#include <span>

#include "muster/cli/command.h"

namespace muster::cli {

/// The edge of a program that is a table of commands: parses the command line, runs the command and
/// returns the exit status. `add_flags` adds flags of its own beside --log-level.
int run_commands(int argc, char** argv, std::span<const Command> commands,
                 void (*add_flags)(CLI::App& app));

}  // namespace muster::cli
