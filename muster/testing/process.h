#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace muster::testing {

/// What a program left behind.
struct Outcome {
  /// The exit status, or 128 + n if signal n ended it.
  int status = 0;
  std::string out{};
  std::string err{};
};

/// Runs a program to its end with no standard input, and keeps what it printed. It is killed after
/// two minutes, so that a test of a program that hangs fails instead of hanging too.
Outcome run_program(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {});

}  // namespace muster::testing
