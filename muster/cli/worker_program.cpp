#include "muster/cli/worker_program.h"

#include <fcntl.h>
#include <signal.h>

#include <filesystem>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/open_file.h"

namespace muster::cli {

WorkerProgram::WorkerProgram(Path program) : path_(std::move(program)) { load(); }

void WorkerProgram::load() {
  program_ = std::make_shared<WarmProgram>(path_, WarmOptions{.own_group = true});
}

WorkerProgram::Worker WorkerProgram::start(const std::vector<std::string>& arguments, int out) {
  const OpenFile nothing("/dev/null", O_RDONLY);
  const WarmProgram::Start how{.arguments = arguments,
                               .environment = launch::environment_with({}),
                               .working_directory = std::filesystem::current_path(),
                               .in = nothing.get(),
                               .out = out,
                               .err = out,
                               .end_signal = SIGTERM};
  try {
    return {program_->start(how), program_};
  } catch (const Unavailable&) {
    load();
    return {program_->start(how), program_};
  }
}

std::optional<launch::EndOfProcess> WorkerProgram::ended(const Worker& worker) {
  std::optional<int> status;
  try {
    status = worker.program->ended(worker.process);
  } catch (const Unavailable&) {
    status = SIGKILL;  // As wait statuses have it.
  }
  if (!status) return std::nullopt;
  return launch::end_of(*status);
}

}  // namespace muster::cli
