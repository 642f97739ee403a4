#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/run/train_and_evaluate.h"
#include "muster/train/estimator/estimator.h"

namespace muster {

struct ExperimentOptions {
  InputFn train_input_fn{};
  InputFn eval_input_fn{};
  /// Training ends at this global step; not set: when the input ends, or never.
  std::optional<std::int64_t> train_steps{};
  /// Batches of an evaluation; not set: all of the input.
  std::optional<std::int64_t> eval_steps = 100;
  Hooks train_hooks{};
  Hooks eval_hooks{};
  SavingListeners saving_listeners{};
  /// Called for the last checkpoint; with checkpoint_and_export for every one that is evaluated.
  std::vector<std::shared_ptr<Exporter>> exporters{};
  bool checkpoint_and_export = false;
  /// How long evaluations by themselves wait for the first checkpoint.
  std::chrono::seconds eval_delay_secs{120};
  /// Between two evaluations of continuous_eval, at least.
  std::chrono::seconds continuous_eval_throttle_secs{60};
  /// train_and_evaluate evaluates a checkpoint when this many steps were made since the last one
  /// that was evaluated, and check_interval_secs have passed; not set: only the last checkpoint.
  std::optional<std::int64_t> min_eval_frequency = 1;
  std::chrono::seconds check_interval_secs{5};
  /// Steps per iteration of continuous_train_and_eval; if not set, a tenth of train_steps, or 1,000
  /// without those.
  std::optional<std::int64_t> train_steps_per_iteration{};
  /// Without RunConfig::cluster.sync: worker i begins when step int(8000 ln(i + 1)) is saved
  /// instead of after 5 i seconds.
  bool delay_workers_by_global_step = false;

  /// Throws InvalidArgument, naming the field.
  void check() const;
};

/// False ends what continues: called with the metrics of every evaluation.
using ContinuePredicate = std::function<bool(const EvaluationResult&)>;

struct ContinuousEvalOptions {
  /// Not set: eval_delay_secs and continuous_eval_throttle_secs.
  std::optional<std::chrono::seconds> delay_secs{};
  std::optional<std::chrono::seconds> throttle_delay_secs{};
  /// Results go to model_dir/eval_NAME; not set: continuous, or continuous_on_train_data.
  std::optional<std::string> name{};
  ContinuePredicate predicate_fn{};
};

/// An estimator with its inputs, and the ways to work with them, which are called schedules. Each
/// is a method; run() takes one by its name. Calls come from one thread at a time.
class Experiment {
 public:
  /// Throws InvalidArgument, naming the field, for options that cannot work.
  Experiment(const Estimator& estimator, ExperimentOptions options);

  const Estimator& estimator() const { return estimator_; }
  const ExperimentOptions& options() const { return options_; }

  /// Trains as this process's task of its cluster; evaluates nothing. First waits for delay_secs:
  /// by default worker_start_delay(). Throws FailedPrecondition in a ps and an evaluator;
  /// DeadlineExceeded when delay_workers_by_global_step has it wait for a step that does not come
  /// within session_creation_timeout_secs.
  TrainResult train(std::optional<std::chrono::seconds> delay_secs = {});

  /// One evaluation of the latest checkpoint, which is waited for at most delay_secs
  /// (eval_delay_secs), into model_dir/eval_NAME. Throws NotFound when none has come.
  EvaluationResult evaluate(std::optional<std::chrono::seconds> delay_secs = {},
                            const std::string& name = "one_pass");

  /// Evaluates the newest checkpoint that another process's training saves, again and again, and
  /// exports it: until the one of train_steps is evaluated, the run's chief has said that it is
  /// over, or predicate_fn says so. Throws Unavailable when no checkpoint comes for
  /// session_creation_timeout_secs.
  TrainAndEvaluateResult continuous_eval(const ContinuousEvalOptions& options = {});
  /// The same with the training input; nothing is exported.
  TrainAndEvaluateResult continuous_eval_on_train_data(const ContinuousEvalOptions& options = {});

  /// Trains train_steps_per_iteration, evaluates, and so on, until train_steps, the input's end, or
  /// predicate_fn ends it. The input resumes where it was, and the weights are those of one run of
  /// training. Throws FailedPrecondition in a cluster.
  TrainAndEvaluateResult continuous_train_and_eval(const ContinuePredicate& predicate_fn = {});

  /// Trains and evaluates as this process's task of its cluster, or alone: see
  /// muster::train_and_evaluate.
  TrainAndEvaluateResult train_and_evaluate();
  /// The same, for one process. Throws FailedPrecondition in a cluster.
  TrainAndEvaluateResult local_run();

  /// Holds variables until the run ends. Throws FailedPrecondition in a task that is no ps.
  void run_std_server();

  /// Whether it all works: one step of training, one batch of evaluation, and the exports. Throws
  /// FailedPrecondition in a cluster.
  TrainAndEvaluateResult test();

  /// The schedule of this name. Throws InvalidArgument, listing them, for any other.
  TrainAndEvaluateResult run(std::string_view schedule);
  static std::span<const std::string_view> schedules();

 private:
  EvalSpec eval_spec() const;
  TrainAndEvaluateResult follow(const ContinuousEvalOptions& options, bool on_train_data);
  void wait_for_turn(std::optional<std::chrono::seconds> delay_secs) const;
  void require_alone(std::string_view schedule) const;

  Estimator estimator_;
  ExperimentOptions options_;
};

/// How long Experiment::train waits by itself: 5 s for each worker before this one, at most 60,
/// where every task steps on its own. Where all make each step together, a late start has no
/// benefit.
std::chrono::seconds worker_start_delay(const RunConfig& config);

/// Schedule of a task for which none is named: train_and_evaluate alone, as a master, and as a
/// worker that stands in for one; train as a chief or worker; run_std_server as a ps;
/// continuous_eval as an evaluator. Throws InvalidArgument for a task of another type.
std::string default_schedule(const TaskEnvironment& environment);

}  // namespace muster
