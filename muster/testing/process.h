#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/warm_program.h"
#include "muster/testing/temp_dir.h"

namespace muster::testing {

/// Outcome of a program that has ended.
struct Outcome {
  /// The exit status, or 128 + n if signal n ended it.
  int status = 0;
  /// Whether a signal ended it, and not its own exit.
  bool killed = false;
  std::string out{};
  std::string err{};
};

struct ProgramOptions {
  /// As NAME=value, beside the environment of the test.
  std::vector<std::string> environment{};
  /// No file may grow beyond this: writing more fails, as on a full disk.
  std::optional<std::uint64_t> most_file_bytes{};
};

/// A program that runs beside the test, with no standard input. It is killed when this goes out of
/// scope, and after two minutes, so that a test of a program that hangs fails instead of hanging
/// too. The programs that load libtorch and start most often are forks of a WarmProgram: loading it
/// took nine tenths of the time of tests with clusters.
class RunningProgram {
 public:
  RunningProgram(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                 const ProgramOptions& options = {});
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t pid() const { return process_; }
  void send(int signal) const;
  /// Text that it has written to its standard error so far.
  std::string err() const { return read_bytes(folder_ / "err"); }
  /// Whether it has ended by itself or by a signal.
  bool ended();
  /// Waits for its end.
  Outcome wait();

 private:
  void start(const std::vector<std::string>& arguments, const ProgramOptions& options, int out,
             int err);

  const std::filesystem::path program_;
  TempDir folder_;
  /// Warm program that it is a fork of, if it is one.
  WarmProgram* warm_ = nullptr;
  pid_t process_ = -1;
  std::optional<int> status_;
};

/// Runs a program to its end, and keeps what it printed.
Outcome run_program(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {});

}  // namespace muster::testing
