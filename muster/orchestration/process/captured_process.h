#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace muster::process {

/// A program that is run for what it prints.
struct CapturedProcess {
  /// The program, searched for as a shell does, and its arguments.
  std::vector<std::string> command{};
  /// Contents of its standard input.
  std::string input{};
  /// It is killed after this.
  std::chrono::milliseconds timeout{60'000};
  /// The most that it may print; it is killed beyond that.
  std::size_t most_output_bytes = std::size_t{256} << 20;
};

struct CapturedOutput {
  /// The exit status, or 128 + n if signal n ended it.
  int status = 0;
  std::string out{};
  std::string err{};
};

/// Runs it to its end. Throws NotFound where there is no such program, DeadlineExceeded, or
/// ResourceExhausted for more output than it may have.
CapturedOutput run_captured(const CapturedProcess& process);

}  // namespace muster::process
