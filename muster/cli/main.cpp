#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <exception>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cli/command.h"
#include "muster/cli/torch_program.h"

namespace muster::cli {
namespace {

constexpr Command kCommands[] = {
    {"records", "write, show, verify, index and time TFRecord files", add_records},
    {"checkpoint", "show and hash checkpoints", add_checkpoint},
    {"events", "show what a run wrote for TensorBoard", add_events},
    {"model", "show SavedModels", add_model},
    {"export", "write what a training made for other programs", add_export},
};

constexpr int kExitMisused = 2;

// libtorch's part of the answer comes from the program that links it.
void print_version() {
  fmt::print("muster {}\n", MUSTER_VERSION);
  std::fflush(stdout);
  if (!exec_torch_program({"version"})) fmt::print("libtorch: not part of this build\n");
}

void set_log_level(const std::string& word) {
  try {
    log::set_level(log::parse_level(word));
  } catch (const InvalidArgument& error) {
    throw UsageError("--log-level: {}", error.what());
  }
}

void add_global_flags(CLI::App& app) {
  app.add_flag_callback(
      "--version",
      [] {
        print_version();
        throw CLI::Success();
      },
      "Print the versions of muster, libtorch and the BLAS");
  app.add_option_function<std::string>("--log-level", set_log_level,
                                       "debug, info, warning, error or off (also MUSTER_LOG_LEVEL)")
      ->trigger_on_parse();
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("muster: Estimators for libtorch");
  app.name("muster");
  app.set_help_all_flag("--help-all", "Print the help of all commands");
  app.footer(
      "Data goes to standard output, talk to standard error. Exit status: 0 done, 1 failed, 2 "
      "misused, "
      "75 worth another try.");
  app.failure_message(CLI::FailureMessage::simple);
  add_global_flags(app);
  add_commands(app, kCommands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return kExitMisused;
  }
  return 0;
}

int run(int argc, char** argv) {
  try {
    const int status = parse_and_run(argc, argv);
    if (std::fflush(stdout) != 0) throw_errno(errno, "writing to standard output");
    return status;
  } catch (...) {
    const Description failure = describe(std::current_exception());
    log::progress("");
    fmt::print(stderr, "muster: {}\n", failure.message);
    return failure.exit_code;
  }
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) { return muster::cli::run(argc, argv); }
