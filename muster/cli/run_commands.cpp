#include "muster/cli/run_commands.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>

#include "muster/base/error.h"
#include "muster/base/flags/arguments.h"
#include "muster/base/log.h"
#include "muster/base/program.h"

namespace muster::cli {
namespace {

constexpr int kExitMisused = 2;

void set_log_level(const std::string& word) {
  try {
    log::set_level(log::parse_level(word));
  } catch (const InvalidArgument& error) {
    throw UsageError("--log-level: {}", error.what());
  }
}

int parse_and_run(int argc, char** argv, std::span<const Command> commands,
                  void (*add_flags)(CLI::App& app)) {
  CLI::App app("muster: Estimators for libtorch");
  app.name("muster");
  app.set_help_all_flag("--help-all", "Print the help of all commands");
  app.footer(
      "Data goes to standard output, messages to standard error. Exit status: 0 success, 1 "
      "failure, "
      "2 usage error, 75 temporary failure: retry.");
  add_flags(app);
  app.add_option_function<std::string>("--log-level", set_log_level,
                                       "debug, info, warning, error or off (also MUSTER_LOG_LEVEL)")
      ->trigger_on_parse();
  add_commands(app, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::RuntimeError& ended) {  // A command with an exit status of its own.
    return ended.get_exit_code();
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "muster: {}\nRun with --help for more information.\n",
               usage_text(app, error));
    return kExitMisused;
  }
  return 0;
}

}  // namespace

void add_json_flag(CLI::App& command, bool& as_json, const char* what) {
  command.add_flag("--json", as_json, what);
}

int run_commands(int argc, char** argv, std::span<const Command> commands,
                 void (*add_flags)(CLI::App& app)) {
  fail_writes_beyond_file_limit();
  try {
    const int status = parse_and_run(argc, argv, commands, add_flags);
    if (std::fflush(stdout) != 0) throw_errno(errno, "writing to standard output");
    return status;
  } catch (...) {
    const Description failure = describe(std::current_exception());
    log::progress("");
    fmt::print(stderr, "muster: {}\n", failure.message);
    return failure.exit_code;
  }
}

}  // namespace muster::cli
