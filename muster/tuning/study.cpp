#include "muster/tuning/study.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/folder_claim.h"
#include "muster/base/log.h"
#include "muster/base/program.h"
#include "muster/base/signals.h"
#include "muster/base/wait.h"
#include "muster/base/warm_program.h"
#include "muster/launch/task_process.h"
#include "muster/tuning/median_rule.h"
#include "muster/tuning/searcher.h"
#include "muster/tuning/trial_metric.h"

namespace muster::tuning {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMostStateBytes = std::uint64_t{64} << 20;
// How often a trial is resumed that was killed, or exited with a status that asks for it.
constexpr int kMostResumes = 3;
// So many failures and no success: the program cannot be run like this.
constexpr std::int64_t kHopelessFailures = 3;
constexpr std::chrono::milliseconds kLeftoverNap{20};
// In the environment of all that a study starts, so that what outlives it can be found.
constexpr const char* kStudyVariable = "MUSTER_STUDY";

Path state_folder(const Path& job_dir) { return job_dir / "study"; }
Path study_file(const Path& job_dir) { return state_folder(job_dir) / "study.json"; }
Path trial_file(const Path& job_dir, std::int64_t id) {
  return state_folder(job_dir) / fmt::format("{}.json", id);
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<Trial> read_trials(const Path& job_dir) {
  std::vector<Trial> trials;
  for (std::int64_t id = 1; file_exists(trial_file(job_dir, id)); ++id) {
    const Path file = trial_file(job_dir, id);
    try {
      trials.push_back(trial_from_json(read_file(file, kMostStateBytes)));
    } catch (Error& error) {
      error.add_context(file.string());
      throw;
    }
  }
  return trials;
}

ordered_json read_study_file(const Path& job_dir) {
  const Path file = study_file(job_dir);
  if (!file_exists(file)) throw NotFound("there is no study in {}", job_dir.string());
  auto json = ordered_json::parse(read_file(file, kMostStateBytes), nullptr,
                                  /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("hyperparameters")) {
    throw DataLoss("{} describes no study", file.string());
  }
  return json;
}

void check_command(const std::vector<std::string>& command, const HyperparameterSpec& spec) {
  if (command.empty()) throw InvalidArgument("no program to tune");
  std::vector<std::string> flags{"job-dir"};
  for (const ParameterSpec& parameter : spec.params) flags.push_back(parameter.name);
  for (const std::string& flag : flags) {
    for (const std::string& word : command) {
      if (word == "--" + flag || word.starts_with("--" + flag + "=")) {
        throw InvalidArgument("the study gives --{} to every trial; leave it out of the arguments",
                              flag);
      }
    }
  }
}

// ------------------------------------------------------------------------- what outlives a study

bool is_started_by(const std::filesystem::path& process, const std::string& entry) {
  std::ifstream file(process / "environ", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return ('\0' + text).find('\0' + entry + '\0') != std::string::npos;
}

std::vector<pid_t> processes_of(const Path& folder) {
  const std::string entry = fmt::format("{}={}", kStudyVariable, folder.string());
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = item.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    const auto process = static_cast<pid_t>(std::stol(name));
    if (process != ::getpid() && is_started_by(item.path(), entry)) found.push_back(process);
  }
  return found;
}

// Ends what a study that was killed has left running: trials are asked to save first.
void end_leftovers(const Path& folder, std::chrono::milliseconds grace) {
  const Deadline polite = Deadline::after(grace);
  const Deadline last = Deadline::after(2 * grace);
  std::map<pid_t, bool> asked;
  for (;;) {
    const auto left = processes_of(folder);
    if (left.empty()) return;
    for (const pid_t process : left) {
      if (polite.expired()) {
        ::kill(process, SIGKILL);
      } else if (!std::exchange(asked[process], true)) {
        log::info("ending what an interrupted study has left pid={}", process);
        ::kill(process, SIGTERM);
      }
    }
    if (last.expired()) {
      throw Unavailable("process {}, which an interrupted study of {} started, does not end",
                        left.front(), folder.string());
    }
    std::this_thread::sleep_for(kLeftoverNap);
  }
}

// -------------------------------------------------------------------------------- running trials

struct ProcessEnd {
  int status = 0;
  bool killed = false;
};

// Starts trials as processes of their own, or as forks of the loaded program.
class Processes {
 public:
  Processes(const StudyOptions& options, const Path& folder) : command_(options.command) {
    ::setenv(kStudyVariable, folder.c_str(), 1);
    if (options.is_warm) warm_.emplace(command_.front());
  }
  ~Processes() { ::unsetenv(kStudyVariable); }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  pid_t start(const std::vector<std::string>& arguments,
              const std::vector<std::string>& environment, const Path& log) {
    if (warm_) return start_fork(arguments, environment, log);
    std::vector<std::string> command{command_.front()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return launch::start_process(
        {.command = std::move(command), .environment = environment, .log = log});
  }

  std::optional<ProcessEnd> ended(pid_t process) {
    if (!warm_) {
      const auto end = launch::reap(process);
      if (!end) return std::nullopt;
      return ProcessEnd{end->status, end->killed};
    }
    const auto status = warm_->ended(process);
    if (!status) return std::nullopt;
    if (WIFEXITED(*status)) return ProcessEnd{WEXITSTATUS(*status), false};
    return ProcessEnd{kStatusOfSignals + WTERMSIG(*status), true};
  }

  void signal(pid_t process, int number) const { ::kill(warm_ ? process : -process, number); }

 private:
  pid_t start_fork(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment, const Path& log) {
    std::map<std::string, std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) add(variables, *entry);
    for (const std::string& entry : environment) add(variables, entry);
    WarmProgram::Start how{.arguments = arguments,
                           .working_directory = std::filesystem::current_path()};
    for (const auto& [name, value] : variables) how.environment.push_back(name + "=" + value);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (out < 0) throw_errno(errno, "opening " + log.string());
    const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    how.in = in;
    how.out = out;
    how.err = out;
    const auto close_both = [&](int*) {
      ::close(in);
      ::close(out);
    };
    int unused = 0;
    const std::unique_ptr<int, decltype(close_both)> closer(&unused, close_both);
    return warm_->start(how);
  }

  static void add(std::map<std::string, std::string>& variables, const std::string& entry) {
    const auto equals = entry.find('=');
    if (equals != entry.npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }

  std::vector<std::string> command_;
  std::optional<WarmProgram> warm_;
};

struct RunningTrial {
  std::size_t place;
  pid_t process;
  Clock::time_point begin;
  bool is_stopped_early = false;
  bool is_over_limit = false;
};

class StudyRun {
 public:
  explicit StudyRun(const StudyOptions& options)
      : options_(options),
        spec_(parse_hyperparameters(options.hyperparameters)),
        space_(spec_.params),
        searcher_(make_searcher(spec_.algorithm, space_, options.seed)),
        job_dir_(std::filesystem::absolute(strip_file_scheme(options.job_dir)).lexically_normal()),
        folder_(state_folder(job_dir_)) {
    check_command(options.command, spec_);
  }

  Study run() {
    file_system_for(folder_).create_directories(folder_);
    const FolderClaim claim(folder_);
    open_study();
    end_leftovers(folder_, options_.grace);
    trials_ = read_trials(job_dir_);
    read_previous();
    check_failures();
    const StopSignals signals;
    Processes processes(options_, folder_);
    processes_ = &processes;
    try {
      run_trials();
    } catch (...) {
      stop_all();
      throw;
    }
    check_end();
    return {.spec = spec_, .trials = trials_};
  }

 private:
  // The one of the folder, if it is the same, or a new one. More trials may be asked for.
  void open_study() {
    const ordered_json mine{{"hyperparameters", ordered_json::parse(options_.hyperparameters)},
                            {"command", options_.command},
                            {"seed", options_.seed}};
    if (file_exists(study_file(job_dir_))) {
      const auto there = read_study_file(job_dir_);
      HyperparameterSpec before = parse_hyperparameters(there.at("hyperparameters").dump());
      before.max_trials = spec_.max_trials;
      before.max_failed_trials = spec_.max_failed_trials;
      if (before != spec_ || there.value("seed", std::uint64_t{0}) != options_.seed ||
          there.value("command", std::vector<std::string>()) != options_.command) {
        throw InvalidArgument(
            "{} has a study with other hyperparameters, another seed or another command; give this "
            "one a --job-dir of its own, or resume that one with what it began with",
            job_dir_.string());
      }
    }
    write_file_atomically(study_file(job_dir_), mine.dump(2) + "\n");
  }

  void read_previous() {
    if (spec_.resume_previous_job_id.empty()) return;
    const Path before = job_dir_.parent_path() / spec_.resume_previous_job_id;
    const Study study = read_study(before);
    std::size_t skipped = 0;
    for (const Trial& trial : study.trials) {
      if (trial.state == TrialState::kRunning) continue;
      try {
        previous_.push_back(observation_of(trial, /*is_known=*/true));
      } catch (const InvalidArgument&) {
        ++skipped;
      }
    }
    log::info("trials of an earlier study job_dir={} observed={} outside_of_this_space={}",
              before.string(), previous_.size(), skipped);
  }

  Observation observation_of(const Trial& trial, bool is_known) const {
    Observation observation{.point = space_.point_of(trial.values)};
    if (!is_known) return observation;
    if (trial.state == TrialState::kSucceeded && std::isfinite(trial.final_metric->value)) {
      const double value = trial.final_metric->value;
      observation.outcome = Observation::Outcome::kDone;
      observation.loss = spec_.goal == Goal::kMaximize ? -value : value;
    } else {
      observation.outcome = Observation::Outcome::kFailed;
    }
    return observation;
  }

  std::size_t parallel() const { return static_cast<std::size_t>(spec_.max_parallel_trials); }

  // The results that the trial at this place knows of: whatever has ended, the same ones always.
  std::size_t known_results(std::size_t place) const {
    return place + 1 > parallel() ? place + 1 - parallel() : 0;
  }

  bool may_suggest() const {
    const std::size_t place = trials_.size();
    if (is_exhausted_ || place >= static_cast<std::size_t>(spec_.max_trials)) return false;
    for (std::size_t i = 0; i < known_results(place); ++i) {
      if (trials_[i].state == TrialState::kRunning) return false;
    }
    return true;
  }

  void suggest() {
    std::vector<Observation> history = previous_;
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      history.push_back(observation_of(trials_[i], i < known_results(trials_.size())));
    }
    const auto points = searcher_->suggest(1, history);
    if (points.empty()) {
      is_exhausted_ = true;
      return;
    }
    trials_.push_back({.id = static_cast<std::int64_t>(trials_.size()) + 1,
                       .values = space_.values_of(points.front()),
                       .start_time = now_seconds()});
    keep(trials_.back());
    if (options_.on_trial) options_.on_trial(trials_.back());
    start(trials_.size() - 1);
  }

  void keep(const Trial& trial) const {
    write_file_atomically(trial_file(job_dir_, trial.id), to_json(trial));
  }

  Path folder_of(const Trial& trial) const { return job_dir_ / std::to_string(trial.id); }
  Path log_of(const Trial& trial) const { return folder_ / fmt::format("{}.log", trial.id); }
  Path metric_file_of(const Trial& trial) const {
    return folder_ / fmt::format("{}.metrics", trial.id);
  }

  void start(std::size_t place) {
    const Trial& trial = trials_[place];
    std::vector<std::string> arguments(options_.command.begin() + 1, options_.command.end());
    for (const auto& [name, value] : trial.values) {
      arguments.push_back(fmt::format("--{}={}", name, value));
    }
    arguments.insert(arguments.end(), {"--job-dir", folder_of(trial).string()});
    const std::string id = std::to_string(trial.id);
    const ordered_json tf_config{{"task", {{"trial", id}}}, {"environment", "cloud"}};
    const std::vector<std::string> environment{
        "TF_CONFIG=" + tf_config.dump(), "CLOUD_ML_TRIAL_ID=" + id,
        "CLOUD_ML_HP_METRIC_FILE=" + metric_file_of(trial).string()};
    file_system_for(folder_).create_directories(folder_of(trial));
    running_.push_back({.place = place,
                        .process = processes_->start(arguments, environment, log_of(trial)),
                        .begin = Clock::now()});
  }

  void run_trials() {
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      if (trials_[i].state == TrialState::kRunning) start(i);
    }
    for (;;) {
      while (running_.size() < parallel() && may_suggest()) suggest();
      if (running_.empty()) return;
      if (const int signal = StopSignals::received(); signal != 0) {
        throw Interrupted(signal, "the study was stopped; the same command resumes it");
      }
      if (!collect()) std::this_thread::sleep_for(nap());
      look_at_running();
    }
  }

  // Short ones are noticed at once, long ones without much work.
  std::chrono::milliseconds nap() const {
    const auto age =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - running_.back().begin);
    return std::clamp(age / 50, std::chrono::milliseconds(1), std::chrono::milliseconds(50));
  }

  // Whether any trial has ended.
  bool collect() {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const auto end = processes_->ended(running_[i].process);
      if (!end) continue;
      const RunningTrial run = running_[i];
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      finish(run, *end);
      return true;
    }
    return false;
  }

  void finish(const RunningTrial& run, const ProcessEnd& end) {
    Trial& trial = trials_[run.place];
    const bool asks_for_more = end.killed || end.status == kExitTryAgain;
    const bool is_ours = run.is_over_limit || run.is_stopped_early;
    if (asks_for_more && !is_ours && resumes_[trial.id] < kMostResumes) {
      ++resumes_[trial.id];
      log::warning("trial {} {} and is resumed, {} of {}", trial.id, words(end), resumes_[trial.id],
                   kMostResumes);
      return start(run.place);
    }
    trial.end_time = now_seconds();
    trial.is_stopped_early = run.is_stopped_early;
    take_result(trial, run, end);
    keep(trial);
    if (options_.on_trial) options_.on_trial(trial);
    check_failures();
  }

  static std::string words(const ProcessEnd& end) {
    return end.killed ? fmt::format("was killed by signal {}", end.status - kStatusOfSignals)
                      : fmt::format("exited with status {}", end.status);
  }

  void take_result(Trial& trial, const RunningTrial& run, const ProcessEnd& end) const {
    trial.state = TrialState::kFailed;
    if (run.is_over_limit) {
      trial.error_message = fmt::format("ran for more than {} s", options_.trial_limit->count());
      return;
    }
    if (end.status != 0 && !run.is_stopped_early) {
      trial.error_message =
          fmt::format("{}; its lines are in {}", words(end), log_of(trial).string());
      return;
    }
    try {
      take_metrics(trial);
    } catch (const Error& error) {
      trial.error_message = error.what();
    }
  }

  void take_metrics(Trial& trial) const {
    TrialMetrics metrics =
        read_trial_metrics(folder_of(trial), metric_file_of(trial), spec_.metric_tag);
    trial.measurements = std::move(metrics.measurements);
    trial.other_metrics = std::move(metrics.others);
    if (trial.measurements.empty()) {
      std::vector<std::string> seen;
      for (const auto& [name, value] : trial.other_metrics) seen.push_back(name);
      trial.error_message =
          fmt::format("wrote no metric {}; what it wrote: {}", spec_.metric_tag, listed(seen));
      return;
    }
    const Measurement& last = trial.measurements.back();
    if (std::isnan(last.value)) {
      trial.error_message =
          fmt::format("the metric {} is NaN at step {}", spec_.metric_tag, last.step);
      return;
    }
    trial.final_metric = last;
    trial.state = TrialState::kSucceeded;
  }

  void look_at_running() {
    for (RunningTrial& run : running_) {
      if (options_.trial_limit && !run.is_over_limit &&
          Clock::now() - run.begin > *options_.trial_limit) {
        run.is_over_limit = true;
        processes_->signal(run.process, SIGKILL);
      }
    }
    if (!spec_.enable_trial_early_stopping || Clock::now() < next_look_) return;
    next_look_ = Clock::now() + options_.early_stopping_interval;
    for (RunningTrial& run : running_) {
      if (run.is_stopped_early || !is_hopeless(trials_[run.place])) continue;
      run.is_stopped_early = true;
      log::info("trial {} is stopped early", trials_[run.place].id);
      processes_->signal(run.process, SIGTERM);
    }
  }

  bool is_hopeless(const Trial& trial) const {
    std::vector<std::vector<Measurement>> completed;
    for (const Trial& other : trials_) {
      if (other.state == TrialState::kSucceeded && !other.is_stopped_early) {
        completed.push_back(other.measurements);
      }
    }
    if (completed.empty()) return false;
    try {
      const auto metrics =
          read_trial_metrics(folder_of(trial), metric_file_of(trial), spec_.metric_tag);
      return stops_by_median(spec_.goal, metrics.measurements, completed);
    } catch (const DataLoss& error) {
      // Its file may be half written now; the next look is soon.
      log::debug("trial {}: {}", trial.id, error.what());
      return false;
    }
  }

  void check_failures() const {
    std::int64_t failed = 0;
    std::int64_t succeeded = 0;
    const Trial* last = nullptr;
    for (const Trial& trial : trials_) {
      succeeded += trial.state == TrialState::kSucceeded ? 1 : 0;
      if (trial.state != TrialState::kFailed) continue;
      ++failed;
      last = &trial;
    }
    if (last == nullptr) return;
    const bool is_over = spec_.max_failed_trials > 0
                             ? failed >= spec_.max_failed_trials
                             : succeeded == 0 && failed >= kHopelessFailures;
    if (!is_over) return;
    throw FailedPrecondition("{} trials failed and {} succeeded, the study ends; trial {} {}",
                             failed, succeeded, last->id, last->error_message);
  }

  void check_end() const {
    if (Study{.spec = spec_, .trials = trials_}.best() != nullptr) return;
    throw FailedPrecondition("no trial succeeded; trial {} {}", trials_.back().id,
                             trials_.back().error_message);
  }

  // Asks all trials to save and exit, and kills those that do not.
  void stop_all() {
    for (const RunningTrial& run : running_) processes_->signal(run.process, SIGTERM);
    const Deadline deadline = Deadline::after(options_.grace);
    bool is_killed = false;
    while (!running_.empty()) {
      std::erase_if(running_, [&](const RunningTrial& run) {
        return processes_->ended(run.process).has_value();
      });
      if (deadline.expired() && !std::exchange(is_killed, true)) {
        for (const RunningTrial& run : running_) processes_->signal(run.process, SIGKILL);
      }
      if (!running_.empty()) std::this_thread::sleep_for(kLeftoverNap);
    }
  }

  const StudyOptions& options_;
  const HyperparameterSpec spec_;
  const SearchSpace space_;
  const std::unique_ptr<Searcher> searcher_;
  const Path job_dir_;
  const Path folder_;
  std::vector<Observation> previous_;
  std::vector<Trial> trials_;
  std::vector<RunningTrial> running_;
  std::map<std::int64_t, int> resumes_;
  bool is_exhausted_ = false;
  Clock::time_point next_look_{};
  Processes* processes_ = nullptr;
};

}  // namespace

const Trial* Study::best() const {
  const double sign = spec.goal == Goal::kMaximize ? 1 : -1;
  const Trial* best = nullptr;
  for (const Trial& trial : trials) {
    if (trial.state != TrialState::kSucceeded) continue;
    if (best == nullptr || sign * trial.final_metric->value > sign * best->final_metric->value) {
      best = &trial;
    }
  }
  return best;
}

bool has_study(const Path& job_dir) { return file_exists(study_file(job_dir)); }

Study read_study(const Path& job_dir) {
  const auto json = read_study_file(job_dir);
  return {.spec = parse_hyperparameters(json.at("hyperparameters").dump()),
          .trials = read_trials(job_dir)};
}

Study run_study(const StudyOptions& options) { return StudyRun(options).run(); }

}  // namespace muster::tuning
