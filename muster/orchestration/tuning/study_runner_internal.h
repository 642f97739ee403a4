#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "muster/orchestration/tuning/study.h"
#include "muster/orchestration/tuning/study_history_internal.h"
#include "muster/orchestration/tuning/study_store_internal.h"
#include "muster/orchestration/tuning/trial_processes_internal.h"
#include "muster/orchestration/tuning/trial_scheduler_internal.h"
#include "muster/orchestration/tuning/trial_suggester_internal.h"

namespace muster::tuning {

/// Runs the trials that a scheduler chooses as processes, and keeps what becomes of them in the
/// study's folder.
class StudyRunner {
 public:
  /// `options` must outlive it. Throws as run_study() for options that cannot be searched.
  explicit StudyRunner(const StudyOptions& options);
  Study run();

 private:
  using Clock = std::chrono::steady_clock;

  struct RunningTrial {
    std::size_t place;
    pid_t process;
    Clock::time_point begin;
    bool is_stopped_early = false;
    bool is_over_limit = false;
  };

  void open();
  void observe_previous();
  void run_trials();
  /// Throws Interrupted where another process has asked the study to stop.
  void check_stop_request();
  /// Begins the run that can be chosen from the results of as few runs as possible, in their order.
  /// False where there is nothing to begin now.
  bool begin_next();
  void begin(const TrialRun& next, std::size_t known);
  void start(std::size_t place);
  /// Whether any trial has ended.
  bool collect();
  void finish(const RunningTrial& run, const process::EndOfProcess& end);
  void take_result(Trial& trial, const RunningTrial& run, const process::EndOfProcess& end) const;
  /// Ends trials that are over their limit of time or hopeless.
  void look_at_running();
  bool is_hopeless(const Trial& trial) const;
  /// Whether a trial has measured its metric at its last step: there is nothing left to stop.
  bool is_at_last_step(const Trial& trial, const std::vector<Measurement>& measurements) const;
  /// No paused trial goes on any more.
  void end_paused();
  /// Asks all trials to save and exit, and kills those that do not.
  void stop_all();
  void check_failures() const;
  void check_end() const;
  /// The number of results that the next run knows of, whatever else has ended: always the same.
  std::size_t known_results() const;
  std::chrono::milliseconds nap() const;

  const StudyOptions& options_;
  const HyperparameterSpec spec_;
  const StudyStore store_;
  TrialSuggester suggester_;
  std::unique_ptr<TrialScheduler> scheduler_;
  StudyHistory history_;
  std::vector<RunningTrial> running_;
  /// How often trials were resumed, by number.
  std::map<std::int64_t, int> resumes_;
  Clock::time_point next_look_{};
  Clock::time_point next_request_look_{};
  TrialProcesses* processes_ = nullptr;
};

}  // namespace muster::tuning
