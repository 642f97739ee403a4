#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace muster::testing {

/// Output of a program to a terminal of its own until it ends. `environment` is NAME=value,
/// beside that of the test.
std::string run_on_terminal(const std::filesystem::path& program,
                            std::vector<std::string> arguments,
                            const std::vector<std::string>& environment = {});

}  // namespace muster::testing
