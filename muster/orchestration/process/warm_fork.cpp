#include "muster/orchestration/process/warm_fork.h"

#include <filesystem>

#include "muster/base/open_file.h"

namespace muster::process {

pid_t start_fork(WarmProgram& program, const ForkOptions& options) {
  const OpenFile nothing("/dev/null", O_RDONLY);
  return program.start({.arguments = options.arguments,
                        .environment = environment_with(options.environment),
                        .working_directory = std::filesystem::current_path(),
                        .in = nothing.get(),
                        .out = options.out,
                        .err = options.err.value_or(options.out),
                        .end_signal = options.end_signal});
}

std::optional<EndOfProcess> reap_fork(WarmProgram& program, pid_t fork) {
  const auto status = program.ended(fork);
  return status ? std::optional(end_of(*status)) : std::nullopt;
}

}  // namespace muster::process
