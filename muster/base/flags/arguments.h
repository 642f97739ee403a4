#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace muster {

/// Fault of a command line, in one sentence: an unknown command or flag with the nearest
/// that there is, else what CLI11 says, without bounds of 300 digits.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error);

/// Parses the command line of a program. Returns false when it asked for help, which is printed
/// then. Throws UsageError; also for unknown arguments, unless a launcher that adds some to every
/// program (torch.distributed.launch and its --local_rank; it sets RANK) started this one: those
/// are logged.
bool parse_arguments(CLI::App& app, int argc, char** argv);
/// The same with the words after the program's name.
bool parse_arguments(CLI::App& app, std::vector<std::string> words);

/// Sets the level of the log by the value of --verbosity: DEBUG, INFO, WARN, ERROR or FATAL. Throws
/// UsageError for another.
void set_verbosity(const std::string& word);

}  // namespace muster
