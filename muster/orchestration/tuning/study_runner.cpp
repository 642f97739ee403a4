#include "muster/orchestration/tuning/study_runner_internal.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/folder_claim.h"
#include "muster/base/log.h"
#include "muster/base/program.h"
#include "muster/base/signals.h"
#include "muster/base/wait.h"
#include "muster/orchestration/tuning/median_rule.h"
#include "muster/orchestration/tuning/study_hparams_internal.h"
#include "muster/orchestration/tuning/trial_command_internal.h"
#include "muster/orchestration/tuning/trial_metric.h"
#include "muster/orchestration/tuning/trial_result_internal.h"

namespace muster::tuning {
namespace {

// How often a trial is resumed that was killed, or exited with a status that asks for it.
constexpr int kMostResumes = 3;
// So many failures and no success: the program cannot be run like this.
constexpr std::int64_t kHopelessFailures = 3;
constexpr std::chrono::milliseconds kEndNap{20};
// How often the folder is looked at for a request to stop.
constexpr std::chrono::milliseconds kRequestPause{200};

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

StudyRunner::StudyRunner(const StudyOptions& options)
    : options_(options),
      spec_(parse_hyperparameters(options.hyperparameters, options.algorithms)),
      store_(std::filesystem::absolute(strip_file_scheme(options.job_dir)).lexically_normal()),
      suggester_(spec_, options.algorithms, options.seed) {
  check_command(options.command, spec_);
  if (options.is_warm && options.as_job_steps) {
    throw InvalidArgument(
        "forks of a warm program are on its own host, and job steps on any node of the "
        "allocation: take one of the two");
  }
  scheduler_ = make_scheduler(suggester_, options.command);
}

Study StudyRunner::run() {
  const Path& folder = store_.folder();
  file_system_for(folder).create_directories(folder);
  const FolderClaim claim(folder);
  open();
  const StopSignals signals;
  TrialProcesses processes({.program = options_.command.front(),
                            .folder = folder,
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
  return {.spec = spec_, .trials = history_.trials};
}

void StudyRunner::open() {
  store_.open(options_, spec_);
  store_.remove_stop_request();
  if (options_.as_job_steps) end_left_steps(store_.folder(), options_.grace);
  end_leftovers(store_.folder(), options_.grace);
  history_.trials = store_.trials();
  try {
    history_.runs = scheduler_->runs_of(history_.trials);
  } catch (Error& error) {
    error.add_context(store_.folder().string());
    throw;
  }
  observe_previous();
  check_failures();
}

void StudyRunner::observe_previous() {
  if (spec_.resume_previous_job_id.empty()) return;
  const Path before = store_.job_dir().parent_path() / spec_.resume_previous_job_id;
  const std::vector<Trial> trials = read_study(before).trials;
  const std::size_t skipped = suggester_.observe_previous(trials);
  log::info("trials of an earlier study job_dir={} observed={} outside_of_this_space={}",
            before.string(), suggester_.previous(), skipped);
}

std::size_t StudyRunner::known_results() const {
  const auto parallel = static_cast<std::size_t>(spec_.max_parallel_trials);
  const std::size_t runs = history_.runs.size();
  return runs + 1 > parallel ? runs + 1 - parallel : 0;
}

bool StudyRunner::begin_next() {
  const auto& runs = history_.runs;
  for (std::size_t known = 0; known <= runs.size(); ++known) {
    if (known > 0 && !loss_of(spec_.goal, history_, runs[known - 1])) return false;
    if (known < known_results()) continue;
    if (const auto next = scheduler_->next(history_, known)) {
      begin(*next, known);
      return true;
    }
  }
  return false;
}

void StudyRunner::begin(const TrialRun& next, std::size_t known) {
  auto& trials = history_.trials;
  if (next.trial == trials.size()) {
    auto trial = scheduler_->new_trial(history_, known);
    if (!trial) return;
    trial->id = static_cast<std::int64_t>(trials.size()) + 1;
    trial->start_time = now_seconds();
    trials.push_back(std::move(*trial));
  }
  Trial& trial = trials[next.trial];
  history_.runs.push_back({next.trial, next.rung, trial.rungs.size()});
  scheduler_->begin(trial, next.rung, static_cast<std::int64_t>(history_.runs.size()));
  trial.state = TrialState::kRunning;
  trial.is_stopped_early = false;
  resumes_.erase(trial.id);
  const bool is_new = next.trial + 1 == trials.size() && trial.rungs.size() <= 1;
  if (is_new && !trial.parent) write_hparams_start(store_.folder_of(trial), spec_, trial);
  store_.keep(trial);
  if (options_.on_trial) options_.on_trial(trial);
  start(next.trial);
}

void StudyRunner::start(std::size_t place) {
  const Trial& trial = history_.trials[place];
  const auto arguments = trial_arguments(options_.command, trial, scheduler_->step_limit(trial),
                                         store_.folder_of(trial));
  const auto environment =
      trial_environment(trial, store_.metric_file_of(trial), scheduler_->will_pause(trial));
  store_.make_folder(trial, spec_);
  running_.push_back({.place = place,
                      .process = processes_->start(arguments, environment, store_.log_of(trial)),
                      .begin = Clock::now()});
}

void StudyRunner::run_trials() {
  const auto parallel = static_cast<std::size_t>(spec_.max_parallel_trials);
  for (std::size_t i = 0; i < history_.trials.size(); ++i) {
    if (history_.trials[i].state == TrialState::kRunning) start(i);
  }
  for (;;) {
    while (running_.size() < parallel && begin_next()) continue;
    if (running_.empty()) return;
    if (const int signal = StopSignals::received(); signal != 0) {
      throw Interrupted(signal, "the study was stopped; the same command resumes it");
    }
    check_stop_request();
    if (!collect()) std::this_thread::sleep_for(nap());
    look_at_running();
  }
}

void StudyRunner::check_stop_request() {
  if (Clock::now() < next_request_look_) return;
  next_request_look_ = Clock::now() + kRequestPause;
  if (!store_.is_stop_requested()) return;
  store_.remove_stop_request();
  throw Interrupted(SIGTERM, "the study was asked to stop; the same command resumes it");
}

// Short ones are noticed at once, long ones without much work.
std::chrono::milliseconds StudyRunner::nap() const {
  const auto age =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - running_.back().begin);
  return std::clamp(age / 50, std::chrono::milliseconds(1), std::chrono::milliseconds(50));
}

bool StudyRunner::collect() {
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

void StudyRunner::finish(const RunningTrial& run, const process::EndOfProcess& end) {
  Trial& trial = history_.trials[run.place];
  const bool asks_for_more = end.killed || end.status == kExitTryAgain;
  const bool is_ours = run.is_over_limit || run.is_stopped_early;
  if (asks_for_more && !is_ours && resumes_[trial.id] < kMostResumes) {
    ++resumes_[trial.id];
    log::warning("trial {} {} and is resumed, {} of {}", trial.id, words_of(end),
                 resumes_[trial.id], kMostResumes);
    return start(run.place);
  }
  trial.end_time = now_seconds();
  take_result(trial, run, end);
  trial.is_stopped_early = run.is_stopped_early && !is_at_last_step(trial, trial.measurements);
  if (trial.state != TrialState::kPaused) write_hparams_end(store_.folder_of(trial), trial);
  store_.keep(trial);
  if (options_.on_trial) options_.on_trial(trial);
  check_failures();
}

void StudyRunner::take_result(Trial& trial, const RunningTrial& run,
                              const process::EndOfProcess& end) const {
  trial.state = TrialState::kFailed;
  trial.final_metric.reset();
  if (run.is_over_limit) {
    trial.error_message = fmt::format("ran for more than {} s", options_.trial_limit->count());
    return;
  }
  if (end.status != 0 && !run.is_stopped_early) {
    trial.error_message = failure_of(trial, end, store_);
    return;
  }
  const Trial* const parent =
      trial.parent ? &history_.trials[static_cast<std::size_t>(*trial.parent - 1)] : nullptr;
  take_metrics(trial, parent, spec_, store_);
  if (trial.state == TrialState::kSucceeded) scheduler_->finish(trial);
}

void StudyRunner::end_paused() {
  for (Trial& trial : history_.trials) {
    if (trial.state != TrialState::kPaused) continue;
    trial.state = TrialState::kSucceeded;
    trial.is_stopped_early = true;
    write_hparams_end(store_.folder_of(trial), trial);
    store_.keep(trial);
  }
}

void StudyRunner::look_at_running() {
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
    if (run.is_stopped_early || !is_hopeless(history_.trials[run.place])) continue;
    run.is_stopped_early = true;
    log::info("trial {} is stopped early", history_.trials[run.place].id);
    processes_->signal(run.process, SIGTERM);
  }
}

bool StudyRunner::is_hopeless(const Trial& trial) const {
  std::vector<std::vector<Measurement>> completed;
  for (const Trial& other : history_.trials) {
    if (other.state == TrialState::kSucceeded && !other.is_stopped_early) {
      completed.push_back(other.measurements);
    }
  }
  if (completed.empty()) return false;
  try {
    const auto metrics =
        read_trial_metrics(store_.folder_of(trial), store_.metric_file_of(trial), spec_.metric_tag);
    if (is_at_last_step(trial, metrics.measurements)) return false;
    return stops_by_median(spec_.goal, metrics.measurements, completed);
  } catch (const DataLoss& error) {
    // Its file may be half written now; the next look is soon.
    log::debug("trial {}: {}", trial.id, error.what());
    return false;
  }
}

bool StudyRunner::is_at_last_step(const Trial& trial,
                                  const std::vector<Measurement>& measurements) const {
  const auto steps = planned_steps(options_.command, spec_, trial.values);
  return steps && !measurements.empty() && measurements.back().step >= *steps;
}

void StudyRunner::check_failures() const {
  std::int64_t failed = 0;
  std::int64_t succeeded = 0;
  const Trial* last = nullptr;
  for (const Trial& trial : history_.trials) {
    succeeded += trial.state == TrialState::kSucceeded ? 1 : 0;
    if (trial.state != TrialState::kFailed) continue;
    ++failed;
    last = &trial;
  }
  if (last == nullptr) return;
  const bool is_over = spec_.max_failed_trials > 0 ? failed >= spec_.max_failed_trials
                                                   : succeeded == 0 && failed >= kHopelessFailures;
  if (!is_over) return;
  throw FailedPrecondition("{} trials failed and {} succeeded, the study ends; trial {} {}", failed,
                           succeeded, last->id, last->error_message);
}

void StudyRunner::check_end() const {
  const Study study{.spec = spec_, .trials = history_.trials};
  if (study.best() != nullptr) return;
  throw FailedPrecondition("no trial succeeded; trial {} {}", study.trials.back().id,
                           study.trials.back().error_message);
}

void StudyRunner::stop_all() {
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

}  // namespace muster::tuning
