#include "muster/cli/worker_program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/open_file.h"
#include "muster/base/program.h"
#include "muster/cluster/process_environment.h"

namespace muster::cli {

WorkerProgram::WorkerProgram(Path program) : path_(std::move(program)) { load(); }

void WorkerProgram::load() {
  program_ = std::make_shared<WarmProgram>(path_, WarmOptions{.own_group = true});
}

WorkerProgram::Worker WorkerProgram::start(const std::vector<std::string>& arguments, int out) {
  const OpenFile nothing("/dev/null", O_RDONLY);
  WarmProgram::Start how{.arguments = arguments,
                         .working_directory = std::filesystem::current_path(),
                         .in = nothing.get(),
                         .out = out,
                         .err = out,
                         .end_signal = SIGTERM};
  for (const auto& [name, value] : variables_of_this_process()) {
    how.environment.push_back(fmt::format("{}={}", name, value));
  }
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
  if (WIFEXITED(*status)) return launch::EndOfProcess{.status = WEXITSTATUS(*status)};
  return launch::EndOfProcess{.status = kStatusOfSignals + WTERMSIG(*status), .killed = true};
}

}  // namespace muster::cli
