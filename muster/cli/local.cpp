#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cli/command.h"
#include "muster/cli/found_program.h"
#include "muster/cli/program_arguments.h"
#include "muster/orchestration/launch/launcher.h"

namespace muster::cli {
namespace {

using nlohmann::json;

struct LocalFlags {
  std::string module_name{};
  std::string package_path{};
  bool distributed = false;
  std::int64_t ps = 2;
  std::int64_t workers = 2;
  std::int64_t evaluators = 0;
  std::uint16_t start_port = 27182;
  std::string job_dir{};
  std::string log_dir = "runlogs";
};

launch::LaunchOptions to_options(const LocalFlags& flags) {
  launch::LaunchOptions options;
  options.command.push_back(found_program(flags.module_name, flags.package_path));
  for (const std::string& argument : program_arguments()) options.command.push_back(argument);
  if (!flags.job_dir.empty()) {
    options.command.insert(options.command.end(), {"--job-dir", flags.job_dir});
  }
  const std::vector<std::string> arguments(options.command.begin() + 1, options.command.end());
  options.cluster.job_json = json{{"job_name", flags.module_name}, {"args", arguments}}.dump(
      -1, ' ', true, json::error_handler_t::replace);
  options.cluster.is_single = !flags.distributed;
  options.cluster.chief = flags.evaluators > 0 ? job::kChief : job::kMaster;
  options.cluster.workers = flags.workers;
  options.cluster.ps = flags.ps;
  options.cluster.evaluators = flags.evaluators;
  options.start_port = flags.start_port;
  if (!flags.package_path.empty()) {
    options.working_directory = folder_of_package(flags.package_path);
  }
  options.log_dir = flags.log_dir;
  options.end_of_others = launch::EndOfOthers::kKill;
  return options;
}

void add_train(CLI::App& command) {
  const auto flags = std::make_shared<LocalFlags>();
  command
      .add_option("--module-name", flags->module_name,
                  "The program to run, or trainer.task for the program trainer/task")
      ->required();
  command.add_option("--package-path", flags->package_path,
                     "Tasks run in the folder that holds this one");
  command.add_flag("--distributed", flags->distributed, "Run a cluster on this host");
  const std::vector<CLI::Option*> counts{
      command.add_option("--parameter-server-count", flags->ps, "With --distributed")
          ->capture_default_str()
          ->check(CLI::NonNegativeNumber),
      command.add_option("--worker-count", flags->workers, "With --distributed")
          ->capture_default_str()
          ->check(CLI::NonNegativeNumber),
      command.add_option("--evaluator-count", flags->evaluators, "With --distributed")
          ->capture_default_str()
          ->check(CLI::NonNegativeNumber)};
  command
      .add_option("--start-port", flags->start_port,
                  "Of the first task; ps and workers have the ports behind it")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  command.add_option("--job-dir", flags->job_dir, "Handed to the program as --job-dir, at the end");
  command.add_option("--log-dir", flags->log_dir, "Folder for TASK.log and TASK.pid")
      ->capture_default_str();
  command.footer("Arguments for the program follow --.");
  command.callback([flags, counts] {
    log::set_task("local");
    for (const CLI::Option* count : counts) {
      if (!flags->distributed && count->count() > 0) {
        log::warning("{} is of no use without --distributed", count->get_name());
      }
    }
    try {
      throw CLI::RuntimeError(launch::launch(to_options(*flags)));
    } catch (const InvalidArgument& error) {
      throw UsageError("{}", error.message());
    }
  });
}

constexpr Command kLocalCommands[] = {
    {"train", "run a training program on this host, as gcloud's local train does", add_train},
    {"predict", "predict instances with a SavedModel, as gcloud's local predict does",
     add_local_predict},
};

}  // namespace

void add_local(CLI::App& command) { add_commands(command, kLocalCommands); }

}  // namespace muster::cli
