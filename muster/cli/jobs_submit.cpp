// `muster jobs submit training`: gcloud's flags, for a program.
#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/cli/command.h"
#include "muster/cli/found_program.h"
#include "muster/cli/jobs.h"
#include "muster/cli/jobs_back_end.h"
#include "muster/cli/program_arguments.h"
#include "muster/cli/repeatable.h"
#include "muster/cli/words.h"
#include "muster/orchestration/jobs/end_notice.h"
#include "muster/orchestration/jobs/job_text.h"
#include "muster/orchestration/jobs/machines.h"
#include "muster/orchestration/tuning/hyperparameter_spec.h"

namespace muster::cli {
namespace {

using jobs::Job;
using jobs::RoleInput;
using jobs::Submission;
using jobs::TrainingInput;

struct RoleFlags {
  std::string machine_type{};
  std::int64_t count = -1;
  std::string accelerator{};
};

struct SubmitFlags {
  SharedJobsFlags common{};
  std::string name{};
  BackEndFlags back_end{};
  std::string scale_tier{};
  std::string config{};
  std::string job_dir{};
  std::string labels{};
  std::string module_name{};
  std::string package_path{};
  RoleFlags master{};
  RoleFlags worker{};
  RoleFlags parameter_server{};
  RoleFlags evaluator{};
  bool use_chief = false;
  std::string max_running_time{};
  std::int64_t restarts = 3;
  bool is_warm = false;
  double grace_seconds = 6;
  std::uint64_t log_bytes = std::uint64_t{64} << 20;
  bool keeps_program = false;
  std::vector<std::string> notices{};
  bool stream_logs = false;
  bool is_async = false;
  std::vector<std::string> ignored{};
};

// Flags of gcloud that choose something of a cloud.
constexpr const char* kFlagsOfACloud[] = {
    "--region",           "--runtime-version",  "--python-version",
    "--staging-bucket",   "--packages",         "--service-account",
    "--network",          "--tpu-tf-version",   "--kms-key",
    "--kms-keyring",      "--kms-location",     "--kms-project",
    "--master-image-uri", "--worker-image-uri", "--parameter-server-image-uri",
};

// -------------------------------------------------------------------------- flags over the file

jobs::Accelerator parse_accelerator(const std::string& flag, const std::string& text) {
  jobs::Accelerator accelerator;
  for (const auto& [key, value] : parse_labels(flag.c_str(), text)) {
    if (key == "type") {
      accelerator.type = value;
    } else if (key == "count" && value.find_first_not_of("0123456789") == std::string::npos &&
               value.size() < 6 && !value.empty()) {
      accelerator.count = std::stoll(value);
    } else {
      throw UsageError("{} is type=TYPE,count=NUMBER: \"{}\"", flag, text);
    }
  }
  if (accelerator.type.empty() || accelerator.count <= 0) {
    throw UsageError("{} needs both, type=TYPE,count=NUMBER: \"{}\"", flag, text);
  }
  return accelerator;
}

void lay_role(const char* flag, const char* field, const RoleFlags& given, RoleInput& role,
              Submission& submission) {
  const std::string prefix = fmt::format("--{}", flag);
  if (!given.machine_type.empty()) {
    role.machine_type = given.machine_type;
    submission.origins[std::string(field) + "Type"] = prefix + "-machine-type";
  }
  if (given.count >= 0) {
    role.count = given.count;
    submission.origins[std::string(field) + "Count"] = prefix + "-count";
  }
  if (!given.accelerator.empty()) {
    role.accelerator = parse_accelerator(prefix + "-accelerator", given.accelerator);
  }
}

void apply_flags(const SubmitFlags& flags, Submission& submission) {
  TrainingInput& input = submission.job.training_input;
  if (!flags.scale_tier.empty()) {
    input.scale_tier = jobs::normalized_tier(flags.scale_tier);
    submission.origins["scaleTier"] = "--scale-tier";
  }
  lay_role("master", "master", flags.master, input.master, submission);
  lay_role("worker", "worker", flags.worker, input.worker, submission);
  lay_role("parameter-server", "parameterServer", flags.parameter_server, input.parameter_server,
           submission);
  lay_role("evaluator", "evaluator", flags.evaluator, input.evaluator, submission);
  if (!flags.job_dir.empty()) input.job_dir = flags.job_dir;
  if (!flags.module_name.empty()) input.module_name = flags.module_name;
  if (flags.use_chief) input.use_chief = true;
  if (!flags.max_running_time.empty()) {
    input.max_running_time = jobs::parse_duration(flags.max_running_time);
  }
  for (const auto& [key, value] : parse_labels("--labels", flags.labels)) {
    submission.job.labels[key] = value;
  }
}

// --------------------------------------------------------------------------------- the program

// With a module all words after -- are arguments; without, the first is the program.
void choose_command(const SubmitFlags& flags, Job& job) {
  TrainingInput& input = job.training_input;
  std::vector<std::string> words = program_arguments();
  std::string program = input.module_name;
  if (program.empty()) {
    if (words.empty()) {
      throw UsageError(
          "no program to run: write it after --, as in `muster jobs submit training NAME -- "
          "./census`, or name it with --module-name");
    }
    program = words.front();
    words.erase(words.begin());
  }
  if (!words.empty()) input.args = words;
  for (const std::string& word : input.args) {
    if (printable(word) != word) {
      throw UsageError("an argument of the program is no text that a job can keep: \"{}\"",
                       printable(word));
    }
  }
  // In an image the program is where the image has it.
  const bool is_here = !flags.back_end.abilities().runs_image;
  job.local.command = {is_here ? found_program(program, flags.package_path) : program};
  job.local.command.insert(job.local.command.end(), input.args.begin(), input.args.end());
  if (!input.job_dir.empty()) {
    job.local.command.insert(job.local.command.end(), {"--job-dir", input.job_dir});
  }
  job.local.working_directory = std::filesystem::current_path();
  if (!flags.package_path.empty()) {
    job.local.working_directory = folder_of_package(flags.package_path);
  }
}

// One allocation with the machine of the tier for each trial that runs at the same time. Forks of a
// warm program share one.
bool are_job_steps(const jobs::BackEndAbilities& abilities, const tuning::HyperparameterSpec& spec,
                   bool is_warm) {
  return abilities.has_job_steps && spec.max_parallel_trials > 1 && !is_warm;
}

void ask_for_parallel_trials(Submission& submission, const tuning::HyperparameterSpec& spec) {
  submission.parallel_trials = std::min(spec.max_parallel_trials, spec.max_trials);
  jobs::Resources& needs = submission.job.local.needs;
  needs.cpus *= static_cast<double>(submission.parallel_trials);
  needs.memory_gb *= static_cast<double>(submission.parallel_trials);
  needs.gpus *= submission.parallel_trials;
}

// A job with hyperparameters is a study: in its one machine, wherever that is, `muster tune` runs
// the program, a process per trial, or a job step of Slurm.
void make_study(Submission& submission, const jobs::BackEndAbilities& abilities, bool is_warm) {
  Job& job = submission.job;
  const auto fields = nlohmann::json::parse(job.training_input.cloud_fields);
  const auto block = fields.find("hyperparameters");
  if (block == fields.end()) {
    if (is_warm) throw UsageError("--warm is for studies: the job has no hyperparameters");
    return;
  }
  if (!job.local.is_single) {
    submission.warnings.emplace_back(
        "trainingInput.hyperparameters are searched in one machine, with one process per trial: "
        "with a tier of several the program runs once, with its own defaults");
    return;
  }
  tuning::HyperparameterSpec spec;
  try {
    spec = tuning::parse_hyperparameters(block->dump());
  } catch (InvalidArgument& error) {
    error.add_context(submission.origins["hyperparameters"]);
    throw;
  }
  const std::string job_dir = job.training_input.job_dir;
  if (job_dir.empty()) throw UsageError("a study needs --job-dir: trial N trains in JOB_DIR/N");
  std::vector<std::string>& command = job.local.command;
  // The study gives each trial one of its own.
  command.resize(command.size() - 2);
  // In an image the program is where the image has it.
  const std::string program = abilities.runs_image ? "muster" : own_program();
  std::vector<std::string> study{program,       "tune",      "--hyperparameters",
                                 block->dump(), "--job-dir", job_dir};
  if (is_warm) study.emplace_back("--warm");
  if (are_job_steps(abilities, spec, is_warm)) {
    study.emplace_back("--srun");
    ask_for_parallel_trials(submission, spec);
  }
  study.emplace_back("--");
  command.insert(command.begin(), study.begin(), study.end());
}

void warn_of_checkpoint(const Job& job) {
  if (job.training_input.job_dir.empty() ||
      job.training_input.job_dir.find("://") != std::string::npos) {
    return;
  }
  const Path folder = job.local.working_directory / job.training_input.job_dir;
  std::error_code error;
  if (std::filesystem::exists(folder / "checkpoint", error)) {
    log::warning("{} holds a checkpoint: a program that resumes goes on from it", folder.string());
  }
}

// -------------------------------------------------------------------------------------- submit

Submission submission_of(const SubmitFlags& flags) {
  Submission submission;
  for (const std::string& flag : flags.ignored) {
    submission.warnings.push_back(flag + " has no meaning on this host");
  }
  if (!flags.config.empty()) jobs::read_job_file(flags.config, submission);
  // The name that is typed wins.
  submission.job.job_id = flags.name;
  jobs::check_job_name(flags.name);
  apply_flags(flags, submission);
  jobs::check_labels(submission.job.labels);
  jobs::resolve_machines(submission, machines_of(flags.back_end, *flags.common));
  choose_command(flags, submission.job);
  make_study(submission, flags.back_end.abilities(), flags.is_warm);
  submission.job.local.most_restarts = flags.restarts;
  submission.job.local.grace = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(flags.grace_seconds));
  submission.job.local.log_bytes = flags.log_bytes;
  lay_back_end(flags.back_end, submission);
  return submission;
}

void submit(const SubmitFlags& flags) {
  check_back_end(flags.back_end);
  const jobs::BackEndAbilities abilities = flags.back_end.abilities();
  if (flags.keeps_program && !abilities.keeps_program) {
    throw UsageError("--keep-program goes with --backend local");
  }
  if (!flags.notices.empty() && !abilities.notifies) {
    throw UsageError("--notify goes with --backend local");
  }
  for (const std::string& notice : flags.notices) jobs::check_notice(notice);
  Submission submission = submission_of(flags);
  submission.job.local.notices = flags.notices;
  if (flags.is_async) {
    submission.warnings.emplace_back("--async is what happens without --stream-logs too");
  }
  if (!abilities.runs_image) warn_of_checkpoint(submission.job);
  const jobs::JobStore store = job_store(*flags.common);
  if (flags.keeps_program) store.keep_program(submission.job);
  if (!hand_over(flags.back_end, *flags.common, submission)) return;
  tell_submitted(store, flags.name, flags.stream_logs);
}

void add_role_flags(CLI::App& command, const std::string& role, const std::string& what,
                    RoleFlags& flags, bool has_count) {
  command.add_option("--" + role + "-machine-type", flags.machine_type,
                     "Machine type of " + what + ", with the tier CUSTOM");
  if (has_count) {
    command.add_option("--" + role + "-count", flags.count, "How many, with the tier CUSTOM")
        ->check(CLI::PositiveNumber);
  }
  command.add_option("--" + role + "-accelerator", flags.accelerator,
                     "type=TYPE,count=N: GPUs of each of " + what);
}

void add_training_flags(CLI::App& command, const std::shared_ptr<SubmitFlags>& flags) {
  command.add_option("job", flags->name, "Its name: a letter, then letters, digits, underscores")
      ->required();
  add_back_end_flags(command, flags->back_end);
  command.add_option("--scale-tier", flags->scale_tier,
                     "basic, standard-1, premium-1, basic-gpu, custom, or one of the site's");
  command.add_option("--config", flags->config, "A job as YAML or JSON; flags win over it");
  command.add_option("--job-dir", flags->job_dir, "Handed to the program as --job-dir, at the end");
  command.add_option("--labels", flags->labels, "KEY=VALUE,...");
  command.add_option(
      "--module-name", flags->module_name,
      "The program, or trainer.task for the program trainer/task; all words after -- are "
      "its arguments then");
  command.add_option("--package-path", flags->package_path,
                     "The folder of the program; tasks run in the folder that holds it");
  add_role_flags(command, "master", "the master", flags->master, false);
  add_role_flags(command, "worker", "the workers", flags->worker, true);
  add_role_flags(command, "parameter-server", "the parameter servers", flags->parameter_server,
                 true);
  add_role_flags(command, "evaluator", "the evaluators", flags->evaluator, true);
  command.add_option("--use-chief-in-tf-config", flags->use_chief, "Call the first task chief");
}

void add_life_flags(CLI::App& command, const std::shared_ptr<SubmitFlags>& flags) {
  command.add_option("--max-running-time", flags->max_running_time,
                     "Cancel the job after this time, such as 7200s");
  command.add_flag("--warm", flags->is_warm,
                   "Of a study: load the program once and fork it for every trial");
  command.add_option("--restarts", flags->restarts, "How often a task that fails is restarted")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  command.add_option("--grace", flags->grace_seconds, "Seconds that tasks get to save and exit")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86400.0));
  command.add_option("--log-bytes", flags->log_bytes, "Most bytes kept of a task's log")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{65536}, std::uint64_t{1} << 40));
  command.add_flag("--keep-program", flags->keeps_program,
                   "Copy the program into the job's folder and run the copy: what is built later "
                   "changes nothing for this job");
  repeatable(command.add_option("--notify", flags->notices,
                                "When the job has ended, however: a URL that JSON is posted to, or "
                                "a command that gets it on its standard input; may be repeated"));
  CLI::Option* stream =
      command.add_flag("--stream-logs", flags->stream_logs, "Print its logs until it ends");
  command.add_flag("--async", flags->is_async, "For gcloud's scripts")->excludes(stream);
  for (const char* name : kFlagsOfACloud) {
    command
        .add_option_function<std::string>(
            name, [flags, name](const std::string&) { flags->ignored.emplace_back(name); }, "")
        ->group("");
  }
}

void add_training(CLI::App& command) {
  const auto flags = std::make_shared<SubmitFlags>();
  flags->common = add_jobs_flags(command);
  add_training_flags(command, flags);
  add_life_flags(command, flags);
  command.footer(
      "The program and its arguments follow --: muster jobs submit training NAME -- "
      "./census");
  command.callback([flags] {
    try {
      submit(*flags);
    } catch (const UsageError&) {
      throw;
    } catch (const InvalidArgument& error) {
      throw UsageError("{}", error.what());
    }
  });
}

constexpr Command kSubmitCommands[] = {
    {"training", "submit a training program", add_training},
    {"prediction", "submit files of instances to predict", add_submit_prediction},
};

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

void add_jobs_submit(CLI::App& command) { add_commands(command, kSubmitCommands); }

}  // namespace muster::cli
