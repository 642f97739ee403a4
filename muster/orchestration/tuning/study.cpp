#include "muster/orchestration/tuning/study.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/base/folder_claim.h"
#include "muster/base/json_depth.h"
#include "muster/base/log.h"
#include "muster/base/program.h"
#include "muster/base/signals.h"
#include "muster/base/wait.h"
#include "muster/orchestration/tuning/goals.h"
#include "muster/orchestration/tuning/halving.h"
#include "muster/orchestration/tuning/median_rule.h"
#include "muster/orchestration/tuning/population.h"
#include "muster/orchestration/tuning/searcher.h"
#include "muster/orchestration/tuning/state_checksum.h"
#include "muster/orchestration/tuning/study_hparams_internal.h"
#include "muster/orchestration/tuning/trial_folder_internal.h"
#include "muster/orchestration/tuning/trial_metric.h"
#include "muster/orchestration/tuning/trial_processes_internal.h"
#include "muster/platform/cluster/trial_pause.h"

namespace muster::tuning {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMostStateBytes = std::uint64_t{64} << 20;
// How often a trial is resumed that was killed, or exited with a status that asks for it.
constexpr int kMostResumes = 3;
// So many failures and no success: the program cannot be run like this.
constexpr std::int64_t kHopelessFailures = 3;
constexpr std::chrono::milliseconds kEndNap{20};

Path state_folder(const Path& job_dir) { return job_dir / "study"; }
Path study_file(const Path& job_dir) { return state_folder(job_dir) / "study.json"; }
Path trial_file(const Path& job_dir, std::int64_t id) {
  return state_folder(job_dir) / fmt::format("{}.json", id);
}

std::string read_state(const Path& job_dir, const Path& file) {
  std::string text = read_file_inside(job_dir, file.lexically_relative(job_dir), kMostStateBytes);
  if (is_json_deeper_than(kMostJsonFileDepth, text)) {
    throw DataLoss("{}: its JSON is nested deeper than {}", file.string(), kMostJsonFileDepth);
  }
  return text;
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<Trial> read_trials(const Path& job_dir) {
  std::vector<Trial> trials;
  for (std::int64_t id = 1; file_exists(trial_file(job_dir, id)); ++id) {
    const Path file = trial_file(job_dir, id);
    try {
      const std::string text = read_state(job_dir, file);
      check_checksum(text);
      trials.push_back(trial_from_json(text));
      const auto& parent = trials.back().parent;
      if (parent && (*parent < 1 || *parent >= id)) {
        throw DataLoss("no trial before this one: {}", *parent);
      }
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
  auto json = ordered_json::parse(read_state(job_dir, file), nullptr,
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

// The value of a flag among words, and the words without it.
struct TakenFlag {
  std::optional<std::string> value{};
  std::vector<std::string> others{};
};

TakenFlag take_flag(std::span<const std::string> words, const std::string& flag) {
  TakenFlag taken;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(flag + "=")) {
      taken.value = words[i].substr(flag.size() + 1);
    } else if (words[i] == flag && i + 1 < words.size()) {
      taken.value = words[++i];
    } else {
      taken.others.push_back(words[i]);
    }
  }
  return taken;
}

// The steps of a whole training, among the program's arguments. `field` asks for them.
std::int64_t whole_steps(const std::vector<std::string>& command, const std::string& steps_flag,
                         const char* field) {
  const std::string flag = "--" + steps_flag;
  const auto text = take_flag(command, flag).value;
  std::int64_t steps = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), steps);
  if (steps < 1) {
    throw InvalidArgument(
        "{0} needs {1} among the program's arguments, the steps of a whole trial; where the "
        "program has another flag for them, name it in {0}.stepsFlag",
        field, flag);
  }
  return steps;
}

// Without successive halving, a plan of one rung.
HalvingPlan plan_of(const HyperparameterSpec& spec, const std::vector<std::string>& command) {
  const auto most_trials = static_cast<std::size_t>(spec.max_trials);
  if (!spec.halving) return {.rungs = {0}, .most_trials = most_trials};
  const auto steps = whole_steps(command, spec.halving->steps_flag, "trialStopping");
  return make_halving_plan(*spec.halving, steps, most_trials);
}

std::optional<PopulationPlan> population_of(const HyperparameterSpec& spec,
                                            const std::vector<std::string>& command) {
  if (!spec.population) return std::nullopt;
  return make_population_plan(spec,
                              whole_steps(command, spec.population->steps_flag, "population"));
}

// What was begun, in that order: a trial, or a stretch of one up to a rung.
struct BegunRun {
  std::size_t place;
  std::size_t rung;
  // Its place in the trial's own list, where there is halving.
  std::size_t entry;
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
    if (options.is_warm && options.as_job_steps) {
      throw InvalidArgument(
          "forks of a warm program are on its own host, and job steps on any node of the "
          "allocation: take one of the two");
    }
    plan_ = plan_of(spec_, options.command);
    population_ = population_of(spec_, options.command);
  }

  Study run() {
    file_system_for(folder_).create_directories(folder_);
    const FolderClaim claim(folder_);
    open_study();
    if (options_.as_job_steps) end_left_steps(folder_, options_.grace);
    end_leftovers(folder_, options_.grace);
    trials_ = read_trials(job_dir_);
    read_runs();
    read_previous();
    check_failures();
    const StopSignals signals;
    TrialProcesses processes({.program = options_.command.front(),
                              .folder = folder_,
                              .is_warm = options_.is_warm,
                              .as_job_steps = options_.as_job_steps,
                              .grace = options_.grace});
    processes_ = &processes;
    try {
      run_trials();
      end_paused();
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
      // Rounds of a population divide the steps by the number of trials.
      if (!spec_.population) before.max_trials = spec_.max_trials;
      before.max_failed_trials = spec_.max_failed_trials;
      if (before != spec_ || there.value("seed", std::uint64_t{0}) != options_.seed ||
          there.value("command", std::vector<std::string>()) != options_.command) {
        throw InvalidArgument(
            "{} has a study with other hyperparameters, another seed or another command; give this "
            "one a --job-dir of its own, or resume that one with what it began with",
            job_dir_.string());
      }
    } else {
      write_hparams_experiment(job_dir_, spec_);
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
        previous_.push_back({.point = space_.point_of(trial.values)});
        set_result(previous_.back(), loss_of(trial.final_metric));
      } catch (const InvalidArgument&) {
        ++skipped;
      }
    }
    log::info("trials of an earlier study job_dir={} observed={} outside_of_this_space={}",
              before.string(), previous_.size(), skipped);
  }

  // Those of the folder, in the order in which they began.
  void read_runs() {
    std::map<std::int64_t, BegunRun> by_number;
    for (std::size_t place = 0; place < trials_.size(); ++place) {
      if (!spec_.halving) runs_.push_back({.place = place, .rung = 0, .entry = 0});
      const auto& rungs = trials_[place].rungs;
      for (std::size_t entry = 0; entry < rungs.size(); ++entry) {
        by_number[rungs[entry].run] = {place, rung_of(rungs[entry].max_steps), entry};
      }
    }
    for (const auto& [number, run] : by_number) runs_.push_back(run);
  }

  std::size_t rung_of(std::int64_t max_steps) const {
    const auto found = std::find(plan_.rungs.begin(), plan_.rungs.end(), max_steps);
    if (found == plan_.rungs.end()) {
      throw DataLoss("{}: no rung of this study has {} steps", folder_.string(), max_steps);
    }
    return static_cast<std::size_t>(found - plan_.rungs.begin());
  }

  // Infinite where there is nothing to compare.
  double loss_of(const std::optional<Measurement>& metric) const {
    if (!metric || !std::isfinite(metric->value)) return std::numeric_limits<double>::infinity();
    return spec_.goal == Goal::kMaximize ? -metric->value : metric->value;
  }

  // What a run ended with; nothing while it goes on.
  std::optional<double> loss_of(const BegunRun& run) const {
    const Trial& trial = trials_[run.place];
    const auto& metric = spec_.halving ? trial.rungs[run.entry].metric : trial.final_metric;
    if (!metric && trial.state == TrialState::kRunning) return std::nullopt;
    return loss_of(metric);
  }

  static void set_result(Observation& observation, double loss) {
    const bool is_done = std::isfinite(loss);
    observation.outcome = is_done ? Observation::Outcome::kDone : Observation::Outcome::kFailed;
    observation.loss = is_done ? loss : 0;
  }

  std::size_t parallel() const { return static_cast<std::size_t>(spec_.max_parallel_trials); }

  // The results that the next run knows of: whatever has ended, the same ones always.
  std::size_t known_results() const {
    return runs_.size() + 1 > parallel() ? runs_.size() + 1 - parallel() : 0;
  }

  // Begins what can be chosen from the results of as few runs as possible, in their order. Whether
  // there may be more to begin.
  bool begin_next() {
    std::vector<TrialRun> seen;
    seen.reserve(runs_.size());
    for (const BegunRun& run : runs_) seen.push_back({run.place, run.rung, {}});
    for (std::size_t known = 0; known <= runs_.size(); ++known) {
      if (known > 0) {
        seen[known - 1].loss = loss_of(runs_[known - 1]);
        if (!seen[known - 1].loss) return false;
      }
      if (known < known_results()) continue;
      if (population_ && !can_begin(*population_, history(known), trials_.size())) continue;
      if (const auto next = next_run(plan_, seen)) {
        begin(*next, known);
        return true;
      }
    }
    return false;
  }

  void begin(const TrialRun& next, std::size_t known) {
    if (next.trial == trials_.size() && !add_trial(known)) return;
    Trial& trial = trials_[next.trial];
    runs_.push_back({next.trial, next.rung, trial.rungs.size()});
    if (spec_.halving) {
      trial.rungs.push_back(
          {.run = static_cast<std::int64_t>(runs_.size()), .max_steps = plan_.rungs[next.rung]});
    }
    trial.state = TrialState::kRunning;
    trial.is_stopped_early = false;
    resumes_.erase(trial.id);
    const bool is_new = next.trial + 1 == trials_.size() && trial.rungs.size() <= 1;
    if (is_new && !trial.parent) write_hparams_start(folder_of(trial), spec_, trial);
    keep(trial);
    if (options_.on_trial) options_.on_trial(trial);
    start(next.trial);
  }

  // All trials, with the results of as many runs.
  std::vector<Observation> history(std::size_t known) const {
    std::vector<Observation> all = previous_;
    for (const Trial& trial : trials_) all.push_back({.point = space_.point_of(trial.values)});
    for (std::size_t i = 0; i < known; ++i) {
      set_result(all[previous_.size() + runs_[i].place], *loss_of(runs_[i]));
    }
    return all;
  }

  // False where the searcher has no more points.
  bool add_trial(std::size_t known) {
    std::vector<Observation> seen = history(known);
    Trial trial{.id = static_cast<std::int64_t>(trials_.size()) + 1, .start_time = now_seconds()};
    if (population_) trial.max_steps = population_->rounds[trials_.size() / population_->size];
    if (population_ && trials_.size() >= population_->size) {
      const Inheritance from = inherit(*population_, space_, options_.seed, seen, trials_.size());
      trial.parent = trials_[from.parent].id;
      // Those of a parent that goes on itself are the same texts, whatever numbers round to.
      const bool goes_on = from.parent + population_->size == trials_.size();
      trial.values = goes_on ? trials_[from.parent].values : space_.values_of(from.point);
    } else {
      if (has_several_goals(spec_)) weigh_goals(seen, known);
      const auto points = searcher_->suggest(1, seen);
      if (points.empty()) {
        plan_.most_trials = trials_.size();
        return false;
      }
      trial.values = space_.values_of(points.front());
      if (!spec_.steps_parameter.empty()) trial.parent = prefix_of(trial.values, known);
    }
    trials_.push_back(std::move(trial));
    return true;
  }

  // Of the trials whose results are known, the one with the most steps that these values begin
  // with: all are the same but the steps, and those are no more.
  std::optional<std::int64_t> prefix_of(const Values& values, std::size_t known) const {
    const auto steps_of = [&](const Values& of) { return std::stod(of.at(spec_.steps_parameter)); };
    const Trial* longest = nullptr;
    for (std::size_t i = 0; i < known; ++i) {
      const Trial& trial = trials_[runs_[i].place];
      if (trial.state != TrialState::kSucceeded || trial.is_stopped_early) continue;
      Values same = trial.values;
      same[spec_.steps_parameter] = values.at(spec_.steps_parameter);
      if (same != values || steps_of(trial.values) >= steps_of(values)) continue;
      if (longest == nullptr || steps_of(trial.values) > steps_of(longest->values)) {
        longest = &trial;
      }
    }
    return longest == nullptr ? std::nullopt : std::optional(longest->id);
  }

  // The losses of those that are done, by all goals and constraints.
  void weigh_goals(std::vector<Observation>& history, std::size_t known) const {
    std::vector<const Trial*> done;
    std::vector<Observation*> observations;
    for (std::size_t i = 0; i < known; ++i) {
      Observation& observation = history[previous_.size() + runs_[i].place];
      if (observation.outcome != Observation::Outcome::kDone) continue;
      done.push_back(&trials_[runs_[i].place]);
      observations.push_back(&observation);
    }
    const auto losses = scalar_losses(spec_, done, options_.seed, trials_.size());
    for (std::size_t i = 0; i < losses.size(); ++i) observations[i]->loss = losses[i];
  }

  void keep(const Trial& trial) const {
    write_file_atomically(trial_file(job_dir_, trial.id), with_checksum(to_json(trial)));
  }

  Path folder_of(const Trial& trial) const { return job_dir_ / std::to_string(trial.id); }
  Path log_of(const Trial& trial) const { return folder_ / fmt::format("{}.log", trial.id); }
  Path metric_file_of(const Trial& trial) const {
    return folder_ / fmt::format("{}.metrics", trial.id);
  }

  void start(std::size_t place) {
    const Trial& trial = trials_[place];
    std::vector<std::string> arguments(options_.command.begin() + 1, options_.command.end());
    const auto set_steps = [&](const std::string& name, std::int64_t steps) {
      arguments = take_flag(arguments, "--" + name).others;
      arguments.push_back(fmt::format("--{}={}", name, steps));
    };
    if (spec_.halving) set_steps(spec_.halving->steps_flag, trial.rungs.back().max_steps);
    if (population_) set_steps(spec_.population->steps_flag, trial.max_steps);
    for (const auto& [name, value] : trial.values) {
      arguments.push_back(fmt::format("--{}={}", name, value));
    }
    arguments.insert(arguments.end(), {"--job-dir", folder_of(trial).string()});
    const std::string id = std::to_string(trial.id);
    const ordered_json tf_config{{"task", {{"trial", id}}}, {"environment", "cloud"}};
    std::vector<std::string> environment{
        "TF_CONFIG=" + tf_config.dump(), "CLOUD_ML_TRIAL_ID=" + id,
        "CLOUD_ML_HP_METRIC_FILE=" + metric_file_of(trial).string()};
    if (will_pause(trial)) {
      environment.push_back(fmt::format("{}=1", kTrialPausesVariable));
    }
    if (trial.parent) copy_parent(trial);
    file_system_for(folder_).create_directories(folder_of(trial));
    running_.push_back({.place = place,
                        .process = processes_->start(arguments, environment, log_of(trial)),
                        .begin = Clock::now()});
  }

  // Whether another run goes on from where this one ends.
  bool will_pause(const Trial& trial) const {
    if (population_) return trial.max_steps < population_->rounds.back();
    return spec_.halving && trial.rungs.back().max_steps < plan_.rungs.back();
  }

  // A trial's folder appears with all that it begins with, or not at all: one that is resumed has
  // it already.
  void copy_parent(const Trial& trial) const {
    const Path folder = folder_of(trial);
    if (file_system_for(folder).status(folder)) return;
    const Path temporary = folder_ / fmt::format("{}.copy", trial.id);
    copy_trial_folder(job_dir_ / std::to_string(*trial.parent), temporary);
    write_hparams_start(temporary, spec_, trial);
    publish_directory(temporary, folder);
  }

  void run_trials() {
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      if (trials_[i].state == TrialState::kRunning) start(i);
    }
    for (;;) {
      while (running_.size() < parallel() && begin_next()) continue;
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

  void finish(const RunningTrial& run, const launch::EndOfProcess& end) {
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
    if (trial.state != TrialState::kPaused) write_hparams_end(folder_of(trial), trial);
    keep(trial);
    if (options_.on_trial) options_.on_trial(trial);
    check_failures();
  }

  static std::string words(const launch::EndOfProcess& end) {
    return end.killed ? fmt::format("was killed by signal {}", end.status - kStatusOfSignals)
                      : fmt::format("exited with status {}", end.status);
  }

  std::string last_words(const Trial& trial) const {
    const std::string said = last_words_of(log_of(trial));
    return said.empty() ? "" : fmt::format(": {}", said);
  }

  void take_result(Trial& trial, const RunningTrial& run, const launch::EndOfProcess& end) const {
    trial.state = TrialState::kFailed;
    trial.final_metric.reset();
    if (run.is_over_limit) {
      trial.error_message = fmt::format("ran for more than {} s", options_.trial_limit->count());
      return;
    }
    if (end.status != 0 && !run.is_stopped_early) {
      trial.error_message = fmt::format("{}{}; its lines are in {}", words(end), last_words(trial),
                                        log_of(trial).string());
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
      seen.reserve(trial.other_metrics.size());
      for (const auto& [name, value] : trial.other_metrics) seen.push_back(name);
      trial.error_message =
          fmt::format("wrote no metric {}; what it wrote: {}", spec_.metric_tag, listed(seen));
      return;
    }
    const Measurement& last = trial.measurements.back();
    if (!std::isfinite(last.value)) {
      trial.error_message = fmt::format("the metric {} is {} at step {}: no value to compare",
                                        spec_.metric_tag, last.value, last.step);
      return;
    }
    // The parent's event files are among its own.
    if (trial.parent) {
      const auto& before = trials_[static_cast<std::size_t>(*trial.parent - 1)].final_metric;
      if (before && before->step > 0 && last.step <= before->step) {
        trial.error_message = fmt::format(
            "wrote no metric {} behind step {}, from which it went on as trial {} ended",
            spec_.metric_tag, before->step, *trial.parent);
        return;
      }
    }
    for (const std::string& tag : other_tags(spec_)) {
      const auto value = metric_value(spec_, trial, tag);
      if (value && std::isfinite(*value)) continue;
      trial.error_message = value ? fmt::format("the metric {} is {}", tag, *value)
                                  : fmt::format("wrote no metric {}", tag);
      return;
    }
    trial.final_metric = last;
    trial.state = TrialState::kSucceeded;
    if (!spec_.halving) return;
    trial.rungs.back().metric = last;
    if (trial.rungs.back().max_steps < plan_.rungs.back()) trial.state = TrialState::kPaused;
  }

  // No trial goes on any more.
  void end_paused() {
    for (Trial& trial : trials_) {
      if (trial.state != TrialState::kPaused) continue;
      trial.state = TrialState::kSucceeded;
      trial.is_stopped_early = true;
      write_hparams_end(folder_of(trial), trial);
      keep(trial);
    }
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
      if (!running_.empty()) std::this_thread::sleep_for(kEndNap);
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
  std::vector<BegunRun> runs_;
  std::vector<RunningTrial> running_;
  std::map<std::int64_t, int> resumes_;
  HalvingPlan plan_;
  std::optional<PopulationPlan> population_;
  Clock::time_point next_look_{};
  TrialProcesses* processes_ = nullptr;
};

}  // namespace

const Trial* Study::best() const {
  const double sign = spec.goal == Goal::kMaximize ? 1 : -1;
  const Trial* best = nullptr;
  double least_violation = 0;
  for (const Trial& trial : trials) {
    const bool has_result =
        (trial.state == TrialState::kSucceeded || trial.state == TrialState::kPaused) &&
        trial.final_metric && std::isfinite(trial.final_metric->value);
    if (!has_result) continue;
    const double violation = violation_of(spec, trial);
    const bool is_better = best == nullptr || violation < least_violation ||
                           (violation == least_violation &&
                            sign * trial.final_metric->value > sign * best->final_metric->value);
    if (!is_better) continue;
    best = &trial;
    least_violation = violation;
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
