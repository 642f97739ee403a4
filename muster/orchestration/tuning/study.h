#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/orchestration/tuning/hyperparameter_spec.h"
#include "muster/orchestration/tuning/search_algorithms.h"
#include "muster/orchestration/tuning/trial.h"

namespace muster::tuning {

struct StudyOptions {
  /// The block `hyperparameters`, as JSON.
  std::string hyperparameters{};
  /// Trial N trains in JOB_DIR/N. What the study knows is in JOB_DIR/study, see
  /// docs/formats/study.md.
  Path job_dir{};
  /// The program and its arguments, after which each trial's values and --job-dir are put.
  std::vector<std::string> command{};
  std::uint64_t seed = 0;
  /// The search algorithms that `hyperparameters` may name.
  SearchAlgorithms algorithms = SearchAlgorithms::built_in();
  /// The program has run_main(argc, argv, body): it is loaded once, and trials are forks of it.
  bool is_warm = false;
  /// Each trial is a job step (srun) of the Slurm allocation that this process is in, with the
  /// resources of one of its tasks, on any node of it. All nodes must see `job_dir`.
  bool as_job_steps = false;
  /// A trial that runs for longer fails.
  std::optional<std::chrono::seconds> trial_limit{};
  /// How long a trial may take to save and exit when it is asked to stop.
  std::chrono::milliseconds grace{10'000};
  /// How often running trials are checked, if they may be stopped early.
  std::chrono::milliseconds early_stopping_interval{1'000};
  /// Called with every trial when it begins and when it ends.
  std::function<void(const Trial& trial)> on_trial{};
};

/// A study as its folder has it.
struct Study {
  HyperparameterSpec spec{};
  /// By number.
  std::vector<Trial> trials{};

  /// The one with the best final metric; nothing if none succeeded. With constraints, of those
  /// that keep them, or else of those that come nearest. Of several goals the first counts. With
  /// successive halving, of those that were trained for the most steps.
  const Trial* best() const;
};

/// Whether there is one.
bool has_study(const Path& job_dir);

/// Throws NotFound where there is no study.
Study read_study(const Path& job_dir);

/// Runs the trials of a study to its end, or those that are left of one that was interrupted: a
/// trial that was running is resumed in its own folder, with its values, and counts once. Trial n
/// is suggested from the results of all trials up to n - maxParallelTrials, whenever the others
/// end: a study that was killed comes to the same trials.
///
/// SIGTERM and SIGINT ask the trials to save and exit; the study can be resumed, and Interrupted is
/// thrown. Throws InvalidArgument for a specification or command that cannot be searched, or that
/// is not the study's own, and FailedPrecondition when too many trials fail, with the reason of the
/// last, when another process runs this study, or when there is no allocation for its steps, and
/// Unavailable when Slurm does not answer.
Study run_study(const StudyOptions& options);

}  // namespace muster::tuning
