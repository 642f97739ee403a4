// `muster jobs`: Cloud ML Engine's commands of this name, for jobs of this host and of back ends.
#include "muster/cli/jobs.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/local_time.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/base/wait.h"
#include "muster/cli/command.h"
#include "muster/cli/tune.h"
#include "muster/cli/words.h"
#include "muster/orchestration/jobs/back_ends.h"
#include "muster/orchestration/jobs/end_notice.h"
#include "muster/orchestration/jobs/job_log.h"
#include "muster/orchestration/jobs/job_runner.h"
#include "muster/orchestration/jobs/job_text.h"
#include "muster/orchestration/jobs/machines.h"
#include "muster/orchestration/jobs/progress.h"
#include "muster/orchestration/jobs/supervisor.h"
#include "muster/platform/stores/post_json.h"

namespace muster::cli {
namespace {

// Commands that a user may type next, for standard error.
std::string next_commands(const std::string& name) {
  return fmt::format(
      "Your job is still active. You may view the status of your job with the command\n\n"
      "  $ muster jobs describe {0}\n\n"
      "or continue streaming the logs with the command\n\n"
      "  $ muster jobs stream-logs {0}\n\n",
      name);
}

using jobs::Job;
using jobs::JobStore;
using jobs::State;
using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kTendJobsEvery{2};

// ---------------------------------------------------------------------------------- supervisor

// `folder` is absolute.
std::vector<std::string> supervise_command(const Path& folder, const JobsFlags& flags) {
  std::vector<std::string> command{own_program(), "jobs", "supervise", "--jobs-dir",
                                   folder.string()};
  if (!flags.machines.empty()) {
    const auto file = std::filesystem::absolute(flags.machines).string();
    command.insert(command.end(), {"--machines", file});
  }
  return command;
}

void supervise(const JobsFlags& flags, const std::string& job) {
  // Inherited descriptors, such as a pipe that another process reads up to its end.
  ::closefrom(STDERR_FILENO + 1);
  const JobStore store = job_store(flags);
  if (!job.empty()) {
    log::set_task("service");
    jobs::run_job(store, job,
                  [](const Job& ended) { jobs::tell_of_end(ended, stores::post_json); });
    return;
  }
  log::set_task("supervisor");
  jobs::SupervisorOptions options{.run_command = store.supervise_command(),
                                  .host = jobs::site_machines(flags.machines).host};
  options.run_command.emplace_back("--job");
  // Keeps no disk busy that is to be unmounted.
  if (::chdir("/") != 0) throw_errno(errno, "changing to /");
  jobs::supervise(store, options);
}

void add_supervise(CLI::App& command) {
  const auto flags = add_jobs_flags(command);
  const auto job = std::make_shared<std::string>();
  command.add_option("--job", *job, "Run this job alone, as the supervisor does");
  command.footer(
      "Every command starts the work that it sees in the background: run this one where no other "
      "is run, as after a reboot.");
  command.callback([=] { supervise(*flags, *job); });
}

bool refresh(const JobStore& store, const std::vector<Job>& jobs) {
  return jobs::refresh_jobs(jobs::BackEnds::built_in(), store, jobs);
}

// Whether a refresh may have changed what is kept of a job that was open before it.
bool may_have_news(const Job& job) {
  const jobs::BackEnds& back_ends = jobs::BackEnds::built_in();
  return !is_final(job.state) && back_ends.has(job.back_end) &&
         !back_ends.find(job.back_end).abilities().keeps_record;
}

std::string note_of(const Job& job) {
  const jobs::BackEnds& back_ends = jobs::BackEnds::built_in();
  return back_ends.has(job.back_end) ? back_ends.find(job.back_end).note(job) : "";
}

// Commands see to it that what they look at goes on.
Job read_and_tend(const JobStore& store, const std::string& name) {
  const Job job = store.read(name);
  refresh(store, {job});
  return may_have_news(job) ? store.read(name) : job;
}

// A back end that does not answer is asked again by those who wait, but not for ever.
class Silence {
 public:
  void note(bool has_answered, const Job& job) {
    failures_ = has_answered ? 0 : failures_ + 1;
    if (failures_ < kMostFailures) return;
    throw Unavailable("{} did not answer {} times; the job {} was {} when it last did",
                      job.back_end, failures_, job.job_id, name_of(job.state));
  }

 private:
  static constexpr int kMostFailures = 10;

  int failures_ = 0;
};

// -------------------------------------------------------------------------------------- tables

using TableRow = std::vector<std::string>;

void print_job_table(const std::vector<TableRow>& rows) {
  std::vector<std::size_t> widths;
  for (const TableRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const TableRow& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i + 1 < row.size() ? fmt::format("{:<{}}  ", row[i], widths[i]) : row[i];
    }
    fmt::print("{}\n", line);
  }
}

std::string compact(const ordered_json& written) {
  return written.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void add_list(CLI::App& command) {
  const auto flags = add_jobs_flags(command);
  const auto limit = std::make_shared<std::size_t>(0);
  const auto as_json = std::make_shared<bool>(false);
  command.add_option("--limit", *limit, "Print only this many, the newest; 0: all")
      ->capture_default_str();
  add_json_flag(command, *as_json, "One JSON object per job, a line each");
  command.callback([=] {
    const JobStore store = job_store(*flags);
    std::vector<TableRow> rows{{"JOB_ID", "STATUS", "CREATED"}};
    std::vector<Job> all = store.list();
    refresh(store, all);
    if (std::ranges::any_of(all, may_have_news)) all = store.list();
    for (const Job& job : all) {
      if (*limit > 0 && rows.size() > *limit) continue;
      if (*as_json) fmt::print("{}\n", compact(ordered_json::parse(jobs::to_json(job))));
      rows.push_back({job.job_id, std::string(name_of(job.state)), local_time(job.create_time)});
    }
    if (*as_json) return;
    if (rows.size() == 1) {
      fmt::print(stderr, "Listed 0 items.\n");
    } else {
      print_job_table(rows);
    }
  });
}

// ------------------------------------------------------------------------------------ describe

std::string optional_time_text(const std::optional<jobs::Time>& time) {
  return time ? jobs::to_text(*time) : "";
}

// Without those that are empty, as gcloud has it.
void print_fields(const char* title,
                  const std::vector<std::pair<std::string, std::string>>& fields) {
  fmt::print("{}\n", title);
  std::vector<TableRow> rows;
  for (const auto& [name, value] : fields) {
    if (!value.empty()) rows.push_back({"  " + name, value});
  }
  print_job_table(rows);
}

void summarize_prediction(const Job& job) {
  const jobs::PredictionInput& input = *job.prediction_input;
  print_fields("Prediction Input Summary", {{"runtimeVersion", input.runtime_version},
                                            {"region", input.region},
                                            {"modelName", input.model_name},
                                            {"versionName", input.version_name},
                                            {"uri", input.uri},
                                            {"outputPath", input.output_path},
                                            {"dataFormat", input.data_format}});
  const auto output = prediction_output_fields(job);
  if (!output.empty()) print_fields("Prediction Output Summary", output);
}

void summarize(const Job& job, const std::optional<jobs::Progress>& progress) {
  const auto count = [](const jobs::RoleInput& role) {
    return role.count ? std::to_string(*role.count) : std::string();
  };
  print_fields("Job Overview", {{"jobId", job.job_id},
                                {"createTime", jobs::to_text(job.create_time)},
                                {"startTime", optional_time_text(job.start_time)},
                                {"endTime", optional_time_text(job.end_time)},
                                {"state", std::string(name_of(job.state))},
                                {"note", note_of(job)},
                                {"errorMessage", job.error_message}});
  if (job.prediction_input) return summarize_prediction(job);
  const auto& input = job.training_input;
  print_fields("Training Input Summary",
               {{"scaleTier", input.scale_tier},
                {"pythonModule", input.module_name},
                {"parameterServerType", input.parameter_server.machine_type},
                {"parameterServerCount", count(input.parameter_server)},
                {"masterType", input.master.machine_type},
                {"workerType", input.worker.machine_type},
                {"workerCount", count(input.worker)},
                {"jobDir", input.job_dir}});
  if (const auto study = study_of(job)) {
    fmt::print("Trials\n");
    print_trials(*study);
    return print_fields("Training Output Summary", training_output_fields(*study));
  }
  if (progress) {
    const auto number = [](const std::optional<double>& value) {
      return value ? fmt::format("{:.6g}", *value) : std::string();
    };
    print_fields("Training Output Summary", {{"step", std::to_string(progress->step)},
                                             {"loss", progress->loss_text()},
                                             {"stepsPerSecond", number(progress->steps_per_second)},
                                             {"secondsLeft", number(progress->seconds_left())}});
  }
}

// Prints the fields of the YAML output, as numbers and texts.
void print_job_json(const Job& job, const std::optional<jobs::Progress>& progress) {
  ordered_json written = ordered_json::parse(jobs::to_json(job));
  if (progress) {
    ordered_json& shown = written["progress"];
    shown["step"] = progress->step;
    const auto add = [&](const char* name, const auto& value) {
      if (value) shown[name] = *value;
    };
    add("maxSteps", progress->max_steps);
    add("loss", progress->loss);
    add("stepsPerSecond", progress->steps_per_second);
    add("secondsLeft", progress->seconds_left());
  }
  if (const auto study = study_of(job)) {
    written["trainingOutput"] = ordered_json::parse(training_output_json(*study));
  }
  if (job.prediction_input) {
    for (const auto& [name, value] : prediction_output_fields(job)) {
      written["predictionOutput"][name] = value;
    }
  }
  fmt::print("{}\n", written.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

void add_describe(CLI::App& command) {
  const auto flags = add_jobs_flags(command);
  const auto name = std::make_shared<std::string>();
  const auto short_form = std::make_shared<bool>(false);
  const auto as_json = std::make_shared<bool>(false);
  command.add_option("job", *name, "The name of the job")->required();
  add_json_flag(command, *as_json, "One JSON object");
  command.add_flag("--summarize", *short_form, "A summary in tables, instead of YAML")
      ->excludes("--json");
  command.callback([=] {
    const JobStore store = job_store(*flags);
    const Job job = read_and_tend(store, *name);
    const auto progress = jobs::progress_of(job, store.folder_of(*name));
    if (*as_json) return print_job_json(job, progress);
    if (*short_form) {
      summarize(job, progress);
    } else {
      const auto study = study_of(job);
      fmt::print("{}", jobs::to_yaml(job, study ? training_output_json(*study) : ""));
      if (progress) fmt::print("{}", to_yaml(*progress));
      if (job.prediction_input) fmt::print("{}", prediction_output_yaml(job));
    }
    fmt::print(stderr, "\nView logs with:\n  muster jobs stream-logs {}\n", *name);
  });
}

// ---------------------------------------------------------------------------- follow and wait

void print_lines(jobs::JobLog& log, bool is_last) {
  std::string text;
  log.poll(
      [&](const jobs::LogLine& line) {
        text += jobs::to_text(line);
        text += '\n';
        if (text.size() > 65536) {
          fmt::print("{}", text);
          text.clear();
        }
      },
      is_last);
  fmt::print("{}", text);
  std::fflush(stdout);
}

void add_stream_logs(CLI::App& command) {
  const auto flags = add_jobs_flags(command);
  const auto name = std::make_shared<std::string>();
  const auto options = std::make_shared<FollowOptions>();
  const auto multiline = std::make_shared<bool>(false);
  command.add_option("job", *name, "The name of the job")->required();
  command.add_option("--task-name", options->task_name,
                     "Print one task only: worker-replica-1, worker:1, service");
  command.add_option("--polling-interval", options->polling_interval, "Seconds between polls")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 3600.0));
  command.add_flag("--allow-multiline-logs", *multiline,
                   "For gcloud's scripts: every line is printed as it is");
  command.callback([=] {
    const JobStore store = job_store(*flags);
    throw CLI::RuntimeError(follow_job(store, *name, *options));
  });
}

void wait_for(const JobStore& store, const std::string& name, double timeout_seconds) {
  const Deadline deadline =
      timeout_seconds > 0 ? Deadline::after(std::chrono::duration_cast<Deadline::Clock::duration>(
                                std::chrono::duration<double>(timeout_seconds)))
                          : Deadline::never();
  auto look_again = Deadline::after(milliseconds(0));
  Silence silence;
  for (;;) {
    const Job job = store.read(name);
    if (is_final(job.state)) {
      fmt::print("{}\n", name_of(job.state));
      if (job.state == State::kFailed) fmt::print(stderr, "{}\n", job.error_message);
      throw CLI::RuntimeError(job.state == State::kSucceeded ? 0 : 1);
    }
    if (look_again.expired()) {
      silence.note(refresh(store, {job}), job);
      look_again = Deadline::after(kTendJobsEvery);
    }
    if (deadline.expired()) {
      throw DeadlineExceeded("the job {} is still {} after {:g} s; it goes on", name,
                             name_of(job.state), timeout_seconds);
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

void add_wait(CLI::App& command) {
  const auto flags = add_jobs_flags(command);
  const auto name = std::make_shared<std::string>();
  const auto timeout = std::make_shared<double>(0);
  command.add_option("job", *name, "The name of the job")->required();
  command.add_option("--timeout", *timeout, "Seconds; 0: as long as it takes")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command.callback([=] { wait_for(job_store(*flags), *name, *timeout); });
}

// ----------------------------------------------------------------------- cancel, update, delete

void add_cancel(CLI::App& command) {
  const auto flags = add_jobs_flags(command);
  const auto name = std::make_shared<std::string>();
  command.add_option("job", *name, "The name of the job")->required();
  command.callback([=] {
    const JobStore store = job_store(*flags);
    jobs::cancel_job(jobs::BackEnds::built_in(), store, *name,
                     "The job was cancelled by the user.");
  });
}

struct UpdateFlags {
  std::string name{};
  std::string update{};
  std::string remove{};
  bool clear = false;
};

void update(const JobStore& store, const UpdateFlags& flags) {
  if (flags.update.empty() && flags.remove.empty() && !flags.clear) {
    throw UsageError("nothing to update: give --update-labels, --remove-labels or --clear-labels");
  }
  const auto labels = parse_labels("--update-labels", flags.update);
  store.change(flags.name, [&](Job& job) {
    if (flags.clear) job.labels.clear();
    for (const std::string& key : split(flags.remove, ',')) job.labels.erase(key);
    for (const auto& [key, value] : labels) job.labels[key] = value;
    jobs::check_labels(job.labels);
  });
  fmt::print(stderr, "Updated ml engine job [{}].\n", flags.name);
}

void add_update(CLI::App& command) {
  const auto flags = add_jobs_flags(command);
  const auto what = std::make_shared<UpdateFlags>();
  command.add_option("job", what->name, "The name of the job")->required();
  command.add_option("--update-labels", what->update, "KEY=VALUE,... to set");
  CLI::Option* remove = command.add_option("--remove-labels", what->remove, "KEY,... to remove");
  command.add_flag("--clear-labels", what->clear, "Remove all")->excludes(remove);
  command.callback([=] {
    try {
      update(job_store(*flags), *what);
    } catch (const InvalidArgument& error) {
      throw UsageError("{}", error.what());
    }
  });
}

void add_delete(CLI::App& command) {
  const auto flags = add_jobs_flags(command);
  const auto name = std::make_shared<std::string>();
  command.add_option("job", *name, "The name of a job that is over")->required();
  command.footer("The job's record and logs go; what the program wrote to its job-dir stays.");
  command.callback([=] {
    const JobStore store = job_store(*flags);
    jobs::remove_job(jobs::BackEnds::built_in(), store, *name);
    fmt::print(stderr, "Deleted job [{}].\n", *name);
  });
}

constexpr Command kJobsCommands[] = {
    {"submit", "start a program as a job, in the background", add_jobs_submit},
    {"list", "list jobs, newest first", add_list},
    {"describe", "show a job and its progress", add_describe},
    {"stream-logs", "print the logs of all tasks until the job ends", add_stream_logs},
    {"wait", "wait until a job ends", add_wait},
    {"cancel", "stop a job after a last checkpoint", add_cancel},
    {"update", "change the labels of a job", add_update},
    {"delete", "remove the record and logs of a finished job", add_delete},
    {"supervise", "run the queue in the foreground until it is empty", add_supervise},
};

}  // namespace

// The file of this program; the link to it where a newer one has taken its place.
std::string own_program() {
  std::error_code error;
  const Path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return !error && std::filesystem::exists(program, error) ? program.string() : "/proc/self/exe";
}

SharedJobsFlags add_jobs_flags(CLI::App& command) {
  auto flags = std::make_shared<JobsFlags>();
  command.add_option("--jobs-dir", flags->jobs_dir,
                     "The folder of the jobs (MUSTER_JOBS_DIR; default: "
                     "~/.local/state/muster/jobs)");
  command
      .add_option("--machines", flags->machines,
                  "The site's machine types and scale tiers (MUSTER_MACHINES; default: "
                  "~/.config/muster/machines.yaml, /etc/muster/machines.yaml)")
      ->envname("MUSTER_MACHINES");
  return flags;
}

JobStore job_store(const JobsFlags& flags) {
  const JobStore store(flags.jobs_dir.empty() ? JobStore::default_folder() : Path(flags.jobs_dir));
  return JobStore(store.folder(), supervise_command(store.folder(), flags));
}

int follow_job(const JobStore& store, const std::string& name, const FollowOptions& options) {
  std::optional<std::string> task;
  if (!options.task_name.empty()) {
    try {
      task = jobs::task_name(options.task_name);
    } catch (const InvalidArgument& error) {
      throw UsageError("--task-name: {}", error.what());
    }
  }
  jobs::JobLog log(store, name, task);
  const StopSignals signals;
  // Not at once: the one that a submit has just started may not have its lock yet.
  auto look_again = Deadline::after(milliseconds(500));
  Silence silence;
  for (;;) {
    // Before its lines are read: those of a job that is over are all there then.
    const Job job = store.read(name);
    print_lines(log, is_final(job.state));
    if (is_final(job.state)) return job.state == State::kSucceeded ? 0 : 1;
    if (StopSignals::received() != 0) {
      fmt::print(stderr, "Received keyboard interrupt.\n{}", next_commands(name));
      return 1;
    }
    if (look_again.expired()) {
      silence.note(refresh(store, {job}), job);
      look_again = Deadline::after(kTendJobsEvery);
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(options.polling_interval));
  }
}

void tell_submitted(const JobStore& store, const std::string& name, bool stream_logs) {
  fmt::print(stderr, "Job [{}] submitted successfully.\n", name);
  if (stream_logs) throw CLI::RuntimeError(follow_job(store, name, {}));
  fmt::print(stderr, "{}", next_commands(name));
  fmt::print("jobId: {}\nstate: QUEUED\n", name);
}

std::map<std::string, std::string> parse_labels(const char* flag, const std::string& text) {
  std::map<std::string, std::string> labels;
  if (text.empty()) return labels;
  for (const std::string& entry : split(text, ',')) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("{}: labels are KEY=VALUE,...: \"{}\"", flag, entry);
    }
    labels[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return labels;
}

void add_jobs(CLI::App& command) { add_commands(command, kJobsCommands); }

}  // namespace muster::cli
