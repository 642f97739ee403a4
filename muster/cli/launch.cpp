#include "muster/orchestration/launch/launcher.h"

#include <fmt/core.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cli/command.h"
#include "muster/cli/program_arguments.h"
#include "muster/orchestration/launch/scale.h"
#include "muster/orchestration/launch/stop.h"

namespace muster::cli {
namespace {

using std::chrono::milliseconds;

// LaunchFlags as they are given, before they mean anything.
struct LaunchFlags {
  std::string workers = "2";
  std::int64_t ps = 1;
  bool tls = false;
  bool evaluator = false;
  bool chief = false;
  bool master = false;
  std::string gpus{};
  std::string port_range{};
  std::string log_dir = "runlogs";
  std::string restart = "never";
  double grace_seconds = 10;
  double evaluator_grace_seconds = 600;
  std::string training_log{};
  bool no_training_log = false;
  std::string job_name{};
  std::string hypothesis{};
  std::string bind = "auto";
  std::string hosts{};
  std::string ssh = "ssh";
  bool dry_run = false;
};

milliseconds to_milliseconds(double seconds) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(seconds));
}

// The parser's error with the flag's name before it.
template <typename Parse>
auto parsed(const char* flag, const std::string& text, Parse parse) {
  try {
    return parse(text);
  } catch (const InvalidArgument& error) {
    throw UsageError("{}: {}", flag, error.message());
  }
}

std::vector<std::string> split_list(const std::string& list, char separator = ',') {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const auto comma = std::min(list.find(separator, begin), list.size());
    if (comma > begin) parts.push_back(list.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

launch::LaunchOptions to_options(const LaunchFlags& flags) {
  if (flags.evaluator && flags.master) {
    throw UsageError(
        "--master does not go with --evaluator: a master evaluates itself; leave one out");
  }
  if (program_arguments().empty()) {
    throw UsageError("no program to start: write it after --, as in `muster launch -- ./census`");
  }
  launch::LaunchOptions options;
  options.cluster.chief = flags.chief || flags.evaluator ? job::kChief : job::kMaster;
  const auto workers = parsed("--workers", flags.workers, launch::parse_worker_range);
  options.cluster.workers = workers.most;
  if (workers.is_elastic()) options.least_workers = workers.least;
  options.has_tls = flags.tls;
  options.binding = parsed("--bind", flags.bind, launch::parse_binding);
  options.cluster.ps = flags.ps;
  options.cluster.evaluators = flags.evaluator ? 1 : 0;
  if (flags.gpus == "none") {
    options.cluster.gpus.emplace();
  } else if (!flags.gpus.empty()) {
    options.cluster.gpus = split_list(flags.gpus);
  }
  options.command = program_arguments();
  options.cluster.hosts = split_list(flags.hosts);
  options.ssh = split_list(flags.ssh, ' ');
  if (!flags.port_range.empty()) {
    options.port_range = parsed("--port-range", flags.port_range, launch::parse_port_range);
  }
  options.log_dir = flags.log_dir;
  options.restart = parsed("--restart", flags.restart, launch::parse_restart_policy);
  options.grace = to_milliseconds(flags.grace_seconds);
  options.evaluator_grace = to_milliseconds(flags.evaluator_grace_seconds);
  if (!flags.no_training_log) {
    options.training_log =
        flags.training_log.empty()
            ? Path(flags.log_dir).lexically_normal().parent_path() / "training_log.md"
            : Path(flags.training_log);
  }
  options.job_name = flags.job_name;
  options.hypothesis = flags.hypothesis;
  return options;
}

void run(const LaunchFlags& flags) {
  const launch::LaunchOptions options = to_options(flags);
  try {
    if (flags.dry_run) {
      fmt::print("{}", launch::dry_run(options));
      return;
    }
    log::set_task("launch");
    throw CLI::RuntimeError(launch::launch(options));
  } catch (const InvalidArgument& error) {
    throw UsageError("{}", error.message());
  }
}

void stop(const std::string& log_dir, double grace_seconds) {
  const auto lines = launch::stop({.log_dir = log_dir, .grace = to_milliseconds(grace_seconds)});
  for (const std::string& line : lines) fmt::print("{}\n", line);
  if (lines.empty()) fmt::print("nothing of {} runs\n", log_dir);
}

void add_stop(CLI::App& command) {
  const auto log_dir = std::make_shared<std::string>("runlogs");
  const auto grace = std::make_shared<double>(30);
  command.add_option("--log-dir", *log_dir, "The folder with the pid files")->capture_default_str();
  command.add_option("--grace", *grace, "Seconds until what has not ended is killed")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  // CLI11 hands the footer of the command down.
  command.footer("");
  command.callback([=] { stop(*log_dir, *grace); });
}

void add_scale(CLI::App& command) {
  const auto options = std::make_shared<launch::ScaleOptions>();
  const auto log_dir = std::make_shared<std::string>("runlogs");
  command.add_option("WORKERS", options->workers, "How many there are to be")->required();
  command.add_option("--log-dir", *log_dir, "That of the launch")->capture_default_str();
  command.footer("");
  command.callback([=] {
    options->log_dir = *log_dir;
    try {
      launch::scale(*options);
    } catch (const InvalidArgument& error) {
      throw UsageError("{}", error.message());
    }
    fmt::print("workers: {}\n", options->workers);
  });
}

void add_cluster_flags(CLI::App& command, LaunchFlags& flags) {
  command
      .add_option("--workers", flags.workers,
                  "Workers beside the master: N, or LEAST:MOST, between which scale may choose")
      ->capture_default_str();
  command.add_option("--ps", flags.ps, "Parameter servers")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--tls", flags.tls, "Encrypt messages between tasks (TLS 1.3)");
  command.add_flag("--evaluator", flags.evaluator,
                   "Start an evaluator too; the master is then a chief");
  CLI::Option* chief = command.add_flag("--chief", flags.chief, "Call the first task chief");
  command.add_flag("--master", flags.master, "Call the first task master (the default)")
      ->excludes(chief);
  command.add_option("--gpus", flags.gpus,
                     "GPUs such as 0,1, assigned in turn to all tasks except ps; none hides them");
  command
      .add_option(
          "--bind", flags.bind,
          "Bind tasks to a processor each, or several where there are more tasks "
          "(processor), or let the system move them (none); auto: where it pays, from eight "
          "tasks without ps on")
      ->capture_default_str();
  command.add_option("--hosts", flags.hosts,
                     "Hosts such as a,user@b, on which ssh starts the tasks in turn");
  command.add_option("--ssh", flags.ssh, "The ssh that does, with options of its own")
      ->capture_default_str();
  command.add_option("--port-range", flags.port_range, "Take ports from FIRST-LAST only");
}

void add_run_flags(CLI::App& command, LaunchFlags& flags) {
  command.add_option("--log-dir", flags.log_dir, "Folder for TASK.log and TASK.pid")
      ->capture_default_str();
  command.add_option("--restart", flags.restart, "never, on-failure or on-failure:N")
      ->capture_default_str();
  command.add_option("--grace", flags.grace_seconds, "Seconds that tasks get to exit")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--evaluator-grace", flags.evaluator_grace_seconds,
                  "Seconds that the evaluator gets for the last checkpoint")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command.add_option("--training-log", flags.training_log,
                     "File with an entry per run (default: training_log.md beside the log folder)");
  command.add_flag("--no-training-log", flags.no_training_log, "Write no entry there");
  command.add_option("--job-name", flags.job_name, "Heading of the entry");
  command.add_option("--hypothesis", flags.hypothesis, "The hypothesis of this run, for the entry");
  command.add_flag("--dry-run", flags.dry_run, "Print what would be started");
}

}  // namespace

void add_launch(CLI::App& command) {
  const auto flags = std::make_shared<LaunchFlags>();
  add_cluster_flags(command, *flags);
  add_run_flags(command, *flags);
  command.footer("The program and its arguments follow --: muster launch -- ./census");
  CLI::App* stop_command =
      command.add_subcommand("stop", "stop a launch, and tasks left by earlier ones");
  add_stop(*stop_command);
  CLI::App* scale_command = command.add_subcommand(
      "scale", "set the number of workers of a launch with --workers LEAST:MOST");
  add_scale(*scale_command);
  command.require_subcommand(0, 1);
  command.callback([flags, stop_command, scale_command] {
    if (!stop_command->parsed() && !scale_command->parsed()) run(*flags);
  });
}

}  // namespace muster::cli
