#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "muster/base/warm_program.h"
#include "muster/orchestration/process/task_process.h"

namespace muster::process {

struct ForkOptions {
  std::vector<std::string> arguments{};
  /// NAME=value, over the environment of this process.
  std::vector<std::string> environment{};
  /// Gets its standard output, and its standard error where that has no place of its own.
  int out = 1;
  std::optional<int> err{};
  /// Sent to it when the warm program ends; 0: none.
  int end_signal = 0;
};

/// Starts a fork of a warm program in the folder of this process, without standard input. Throws as
/// WarmProgram::start().
pid_t start_fork(WarmProgram& program, const ForkOptions& options);

/// As reap(), for a fork. Throws Unavailable when the warm program has ended.
std::optional<EndOfProcess> reap_fork(WarmProgram& program, pid_t fork);

}  // namespace muster::process
