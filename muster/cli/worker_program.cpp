#include "muster/cli/worker_program.h"

#include <signal.h>

#include <utility>

#include "muster/base/error.h"

namespace muster::cli {

WorkerProgram::WorkerProgram(Path program) : path_(std::move(program)) { load(); }

void WorkerProgram::load() {
  program_ = std::make_shared<WarmProgram>(path_, WarmOptions{.own_group = true});
}

WorkerProgram::Worker WorkerProgram::start(const std::vector<std::string>& arguments, int out) {
  return start({.arguments = arguments, .out = out});
}

WorkerProgram::Worker WorkerProgram::start(const process::ForkOptions& options) {
  process::ForkOptions how = options;
  how.end_signal = SIGTERM;
  try {
    return {process::start_fork(*program_, how), program_};
  } catch (const Unavailable&) {
    load();
    return {process::start_fork(*program_, how), program_};
  }
}

std::optional<process::EndOfProcess> WorkerProgram::ended(const Worker& worker) {
  try {
    return process::reap_fork(*worker.program, worker.process);
  } catch (const Unavailable&) {
    return process::end_of(SIGKILL);  // As wait statuses have it.
  }
}

}  // namespace muster::cli
