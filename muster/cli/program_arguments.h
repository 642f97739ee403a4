#pragma once

#include <string>
#include <vector>

namespace muster::cli {

/// Takes what stands after the first "--" off the command line of a command that starts a program
/// (`launch`, `local`, `jobs`, `tune`), so that it reaches the program word for word, and leaves
/// other commands' alone. Called once, before the command line is parsed; returns the number of
/// words that are left.
int take_program_arguments(int argc, char** argv);

/// The arguments that take_program_arguments() took.
const std::vector<std::string>& program_arguments();

}  // namespace muster::cli
