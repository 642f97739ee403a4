#include "muster/run/experiment.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/run/checkpoint_evaluator_internal.h"
#include "muster/run/cluster_member_internal.h"
#include "muster/run/evaluation_dry_run_internal.h"
#include "muster/run/evaluator_task_internal.h"
#include "muster/run/train_and_evaluate_internal.h"
#include "muster/run/training_task_internal.h"

namespace muster {
namespace {

using std::chrono::seconds;

constexpr seconds kLongestWorkerDelay{60};
constexpr seconds kDelayOfEachWorker{5};
constexpr std::int64_t kStepsOfAnIteration = 1000;
constexpr std::int64_t kIterations = 10;

constexpr std::array<std::string_view, 9> kSchedules{"train",
                                                     "evaluate",
                                                     "continuous_eval",
                                                     "continuous_eval_on_train_data",
                                                     "continuous_train_and_eval",
                                                     "train_and_evaluate",
                                                     "local_run",
                                                     "run_std_server",
                                                     "test"};

void require_positive(std::string_view name, const std::optional<std::int64_t>& value) {
  if (value && *value <= 0) {
    throw InvalidArgument("Experiment: {} must be positive, or not set: {}", name, *value);
  }
}

void require_not_negative(std::string_view name, seconds value) {
  if (value.count() < 0) {
    throw InvalidArgument("Experiment: {} must not be negative: {}", name, value.count());
  }
}

// Where the others are: only their checkpoints can be seen before this task joins them.
std::int64_t saved_step(const Path& model_dir) {
  const auto latest = latest_checkpoint(model_dir);
  return latest ? checkpoint_step(*latest).value_or(0) : 0;
}

}  // namespace

void ExperimentOptions::check() const {
  if (!train_input_fn) throw InvalidArgument("Experiment: train_input_fn is not set");
  if (!eval_input_fn) throw InvalidArgument("Experiment: eval_input_fn is not set");
  require_positive("train_steps", train_steps);
  require_positive("eval_steps", eval_steps);
  require_positive("min_eval_frequency", min_eval_frequency);
  require_positive("train_steps_per_iteration", train_steps_per_iteration);
  require_not_negative("eval_delay_secs", eval_delay_secs);
  require_not_negative("continuous_eval_throttle_secs", continuous_eval_throttle_secs);
  require_not_negative("check_interval_secs", check_interval_secs);
}

Experiment::Experiment(const Estimator& estimator, ExperimentOptions options)
    : estimator_(estimator), options_(std::move(options)) {
  options_.check();
  eval_spec().check();  // The exporters' names.
}

EvalSpec Experiment::eval_spec() const {
  return {.input_fn = options_.eval_input_fn,
          .steps = options_.eval_steps,
          .hooks = options_.eval_hooks,
          .exporters = options_.exporters,
          .start_delay_secs = options_.eval_delay_secs,
          .throttle_secs = options_.check_interval_secs};
}

void Experiment::require_alone(std::string_view schedule) const {
  const TaskEnvironment& environment = estimator_.config().cluster.task;
  if (environment.is_alone()) return;
  throw FailedPrecondition(
      "{} is for one process alone, but {} makes this task {} of a cluster: use "
      "train_and_evaluate, "
      "or unset it",
      schedule, environment.source, environment.task.name());
}

void Experiment::wait_for_turn(std::optional<seconds> delay_secs) const {
  const RunConfig& config = estimator_.config();
  const std::string turn = fmt::format("the turn of {}", config.cluster.task.task.name());
  const seconds by_default = worker_start_delay(config);
  if (delay_secs || !options_.delay_workers_by_global_step) {
    internal::pause_for(delay_secs.value_or(by_default), turn);
    return;
  }
  if (by_default.count() == 0) {
    log::info("delay_workers_by_global_step is skipped: this task begins with the first");
    return;
  }
  const auto after = static_cast<double>(config.cluster.task.task.index) + 1.0;
  const auto step = static_cast<std::int64_t>(8000.0 * std::log(after));
  const auto is_saved = [&] { return saved_step(config.model_dir) >= step; };
  const std::string reason =
      fmt::format("{}: step {} in {}", turn, step, config.model_dir.string());
  internal::pause_for(config.cluster.session_creation_timeout_secs, reason, is_saved);
  if (is_saved()) return;
  throw DeadlineExceeded(
      "waited {} s (session_creation_timeout_secs) for {}; only step {} is saved",
      config.cluster.session_creation_timeout_secs.count(), reason, saved_step(config.model_dir));
}

TrainResult Experiment::train(std::optional<seconds> delay_secs) {
  const TaskEnvironment& environment = estimator_.config().cluster.task;
  const std::string& type = environment.task.type;
  if (type == job::kPs || type == job::kEvaluator) {
    throw FailedPrecondition("train: {} of a cluster does not train; its schedule is {}",
                             environment.task.name(), default_schedule(environment));
  }
  const TrainOptions train_options{.max_steps = options_.train_steps,
                                   .hooks = options_.train_hooks,
                                   .saving_listeners = options_.saving_listeners};
  if (environment.cluster.empty() && environment.is_alone()) {
    wait_for_turn(delay_secs);
    return estimator_.train(options_.train_input_fn, train_options);
  }
  const internal::TaskInLog named(environment.task.name());
  wait_for_turn(delay_secs);
  Estimator member = environment.is_alone() ? estimator_ : internal::cluster_member(estimator_);
  return internal::train_as_task(member, options_.train_input_fn, train_options);
}

EvaluationResult Experiment::evaluate(std::optional<seconds> delay_secs, const std::string& name) {
  internal::pause_for(delay_secs.value_or(options_.eval_delay_secs), "a checkpoint to evaluate",
                      [this] { return estimator_.latest_checkpoint().has_value(); });
  return estimator_.evaluate(
      options_.eval_input_fn,
      {.steps = options_.eval_steps, .hooks = options_.eval_hooks, .name = name});
}

TrainAndEvaluateResult Experiment::follow(const ContinuousEvalOptions& options,
                                          bool on_train_data) {
  EvalSpec spec = eval_spec();
  spec.name = options.name.value_or(on_train_data ? "continuous_on_train_data" : "continuous");
  spec.start_delay_secs = options.delay_secs.value_or(options_.eval_delay_secs);
  spec.throttle_secs = options.throttle_delay_secs.value_or(options_.continuous_eval_throttle_secs);
  if (on_train_data) {
    spec.input_fn = options_.train_input_fn;
    spec.exporters.clear();
  }
  spec.check();
  const TaskEnvironment& environment = estimator_.config().cluster.task;
  std::optional<internal::TaskInLog> named;
  if (environment.is_evaluator()) named.emplace(environment.task.name());
  return internal::evaluate_training(
      estimator_, {.input_fn = options_.train_input_fn, .max_steps = options_.train_steps}, spec,
      options.predicate_fn);
}

TrainAndEvaluateResult Experiment::continuous_eval(const ContinuousEvalOptions& options) {
  return follow(options, /*on_train_data=*/false);
}

TrainAndEvaluateResult Experiment::continuous_eval_on_train_data(
    const ContinuousEvalOptions& options) {
  return follow(options, /*on_train_data=*/true);
}

TrainAndEvaluateResult Experiment::continuous_train_and_eval(
    const ContinuePredicate& predicate_fn) {
  require_alone("continuous_train_and_eval");
  const auto end = options_.train_steps;
  const std::int64_t steps = options_.train_steps_per_iteration.value_or(
      end ? std::max<std::int64_t>(1, *end / kIterations) : kStepsOfAnIteration);
  const EvalSpec spec = eval_spec();
  internal::rehearse_exports(estimator_, spec);
  internal::CheckpointEvaluator evaluator(estimator_, spec,
                                          {.exports_between = options_.checkpoint_and_export});
  std::int64_t target = saved_step(estimator_.model_dir());
  for (bool goes_on = true; goes_on;) {
    target = end ? std::min(*end, target + steps) : target + steps;
    const TrainResult trained =
        estimator_.train(options_.train_input_fn, {.max_steps = target,
                                                   .hooks = options_.train_hooks,
                                                   .saving_listeners = options_.saving_listeners});
    // An input that ended, or a hook, ends all of it.
    const bool over = trained.global_step < target || (end && target >= *end);
    const auto latest = estimator_.latest_checkpoint();
    if (!latest || trained.global_step == 0) {
      throw NotFound(
          "{} has no trained model to evaluate: the training input had no batch, or the log says "
          "why none was saved",
          estimator_.model_dir().string());
    }
    evaluator.evaluate(*latest, /*is_the_final_export=*/false);
    goes_on = !over && (!predicate_fn || predicate_fn(evaluator.result().metrics));
  }
  evaluator.evaluate(*estimator_.latest_checkpoint(), /*is_the_final_export=*/true);
  return evaluator.result();
}

TrainAndEvaluateResult Experiment::train_and_evaluate() {
  const internal::EvaluationPace pace{.min_steps = options_.min_eval_frequency.value_or(1),
                                      .only_the_last = !options_.min_eval_frequency,
                                      .exports_between = options_.checkpoint_and_export};
  return internal::train_and_evaluate(
      estimator_,
      {.input_fn = options_.train_input_fn,
       .max_steps = options_.train_steps,
       .hooks = options_.train_hooks},
      eval_spec(), {.pace = pace, .saving_listeners = options_.saving_listeners});
}

TrainAndEvaluateResult Experiment::local_run() {
  require_alone("local_run");
  return train_and_evaluate();
}

void Experiment::run_std_server() {
  const TaskEnvironment& environment = estimator_.config().cluster.task;
  if (environment.task.type != job::kPs) {
    throw FailedPrecondition(
        "run_std_server is what a ps does, but this task is {}, whose schedule is {}",
        environment.task.name(), default_schedule(environment));
  }
  train_and_evaluate();
}

TrainAndEvaluateResult Experiment::test() {
  require_alone("test");
  EvalSpec spec = eval_spec();
  internal::rehearse_exports(estimator_, spec);
  estimator_.train(
      options_.train_input_fn,
      {.steps = 1, .hooks = options_.train_hooks, .saving_listeners = options_.saving_listeners});
  spec.steps = 1;
  internal::CheckpointEvaluator evaluator(estimator_, spec);
  const auto latest = estimator_.latest_checkpoint();
  if (!latest) {
    throw NotFound("test: nothing was saved in {}: the log says why",
                   estimator_.model_dir().string());
  }
  evaluator.evaluate(*latest, /*is_the_final_export=*/true);
  return evaluator.result();
}

std::span<const std::string_view> Experiment::schedules() { return kSchedules; }

TrainAndEvaluateResult Experiment::run(std::string_view schedule) {
  if (schedule == "train") return train(), TrainAndEvaluateResult{};
  if (schedule == "evaluate") return {.metrics = evaluate()};
  if (schedule == "continuous_eval") return continuous_eval();
  if (schedule == "continuous_eval_on_train_data") return continuous_eval_on_train_data();
  if (schedule == "continuous_train_and_eval") return continuous_train_and_eval();
  if (schedule == "train_and_evaluate") return train_and_evaluate();
  if (schedule == "local_run") return local_run();
  if (schedule == "run_std_server") return run_std_server(), TrainAndEvaluateResult{};
  if (schedule == "test") return test();
  throw InvalidArgument("there is no schedule \"{}\": take one of {}", schedule,
                        fmt::join(kSchedules, ", "));
}

seconds worker_start_delay(const RunConfig& config) {
  const bool steps_alone = !config.cluster.sync && config.cluster.task.num_ps_replicas > 0;
  if (!steps_alone || config.is_chief()) return seconds(0);
  return std::min(kLongestWorkerDelay, kDelayOfEachWorker * config.cluster.task.task.index);
}

std::string default_schedule(const TaskEnvironment& environment) {
  const std::string& type = environment.task.type;
  if (environment.is_alone() || type == job::kMaster) return "train_and_evaluate";
  if (type == job::kPs) return "run_std_server";
  if (type == job::kEvaluator) return "continuous_eval";
  if (type == job::kChief) return "train";
  if (type == job::kWorker) return environment.is_chief ? "train_and_evaluate" : "train";
  throw InvalidArgument(
      "{}: there is no schedule for a task of type \"{}\"; types are master, chief, worker, ps and "
      "evaluator",
      environment.source, type);
}

}  // namespace muster
