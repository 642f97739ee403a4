#include "muster/run/train_and_evaluate.h"

#include <memory>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/distribution/parameter_server.h"
#include "muster/platform/cluster/trial_pause.h"
#include "muster/run/background_evaluation_internal.h"
#include "muster/run/checkpoint_evaluator_internal.h"
#include "muster/run/cluster_member_internal.h"
#include "muster/run/evaluation_dry_run_internal.h"
#include "muster/run/evaluator_task_internal.h"
#include "muster/run/hparams_hook.h"
#include "muster/run/inference_graph_hook_internal.h"
#include "muster/run/run_record_internal.h"
#include "muster/run/train_and_evaluate_internal.h"
#include "muster/run/training_task_internal.h"

namespace muster {
namespace {

/// Evaluates while training continues. The last checkpoint is left to the end of
/// train_and_evaluate, when the memory of the training is free again.
class EvaluatingListener : public CheckpointSaverListener {
 public:
  EvaluatingListener(internal::CheckpointEvaluator& evaluator, const TrainSpec& spec)
      : evaluator_(evaluator), max_steps_(spec.max_steps), hooks_(spec.hooks) {}

  void begin(Session& session) override { first_step_ = session.global_step(); }

  bool after_save(Session& session, std::int64_t step) override {
    const bool is_last = session.stop_requested() || (max_steps_ && step >= *max_steps_);
    if (step == first_step_ || is_last) return false;
    if (!evaluator_.is_due(step)) {
      evaluator_.log_not_due(step);
      return false;
    }
    for (const auto& hook : hooks_) hook->before_evaluation(session);
    evaluator_.evaluate(session.config().model_dir / fmt::format("model.ckpt-{}", step),
                        /*is_the_final_export=*/false);
    for (const auto& hook : hooks_) hook->after_evaluation(session, evaluator_.result().metrics);
    return false;
  }

 private:
  internal::CheckpointEvaluator& evaluator_;
  const std::optional<std::int64_t> max_steps_;
  /// Hooks of the training.
  const Hooks hooks_;
  std::int64_t first_step_ = -1;
};

/// State that the tasks that train have in common.
struct Run {
  Estimator& estimator;
  const TrainSpec& train_spec;
  const EvalSpec& eval_spec;
  const internal::RunExtras& extras;

  TrainResult train(const Hooks& more_hooks, const SavingListeners& more_listeners = {}) const {
    TrainOptions options{.max_steps = train_spec.max_steps,
                         .max_epochs = train_spec.max_epochs,
                         .hooks = train_spec.hooks,
                         .saving_listeners = extras.saving_listeners};
    options.hooks.insert(options.hooks.end(), more_hooks.begin(), more_hooks.end());
    options.saving_listeners.insert(options.saving_listeners.end(), more_listeners.begin(),
                                    more_listeners.end());
    return internal::train_as_task(estimator, train_spec.input_fn, options);
  }
  /// Hooks that write a run's graph and hyperparameters as events, for a chief that does not
  /// evaluate.
  Hooks event_hooks() const {
    return {internal::make_graph_hook(estimator, eval_spec, std::nullopt),
            std::make_shared<HParamsHook>(estimator, train_spec.max_steps)};
  }
  /// A trial that resumes from a pause was looked at when it began.
  void rehearse_exports_once() const {
    if (trial_pauses() && estimator.latest_checkpoint()) return;
    internal::rehearse_exports(estimator, eval_spec);
  }
  /// The same for one that does: errors that would keep it from evaluating are found before
  /// training. A trial that pauses evaluates soon, and the study has its row of the table of
  /// hyperparameters.
  Hooks rehearsed_event_hooks() const {
    rehearse_exports_once();
    if (trial_pauses()) return {};
    auto [examples, metrics] = internal::dry_run_evaluation(estimator, eval_spec);
    const std::string folder = estimator.eval_dir(eval_spec.name).filename().string();
    std::vector<HParamMetric> columns;
    for (const auto& name : metrics) columns.push_back({.tag = name, .group = folder});
    return {internal::make_graph_hook(estimator, eval_spec, std::move(examples)),
            std::make_shared<HParamsHook>(estimator, train_spec.max_steps, std::move(columns))};
  }
};

TrainAndEvaluateResult evaluate_last(internal::CheckpointEvaluator& evaluator,
                                     const Estimator& estimator, const TrainResult& trained) {
  const auto latest = estimator.latest_checkpoint();
  if (!latest) {
    throw NotFound(
        "{} has no checkpoint to evaluate after training: the log says why none was "
        "saved",
        estimator.model_dir().string());
  }
  if (trained.steps == 0 && trained.global_step == 0) {
    throw InvalidArgument(
        "nothing was trained, and there is nothing to evaluate: the training input had no batch; "
        "look at the files it reads");
  }
  if (trained.steps == 0) {
    log::info("nothing was trained: step {} is reached already; evaluating {}", trained.global_step,
              latest->string());
  }
  evaluator.evaluate(*latest, /*is_the_final_export=*/!trial_pauses());
  return evaluator.result();
}

TrainAndEvaluateResult train_alone(const Run& run) {
  internal::CheckpointEvaluator evaluator(run.estimator, run.eval_spec, run.extras.pace);
  const TrainResult trained =
      run.train(run.rehearsed_event_hooks(),
                {std::make_shared<EvaluatingListener>(evaluator, run.train_spec)});
  return evaluate_last(evaluator, run.estimator, trained);
}

TrainAndEvaluateResult train_as_master(const Run& run) {
  // One of its own, since the other trains meanwhile.
  Estimator evaluated(run.estimator.options(), run.estimator.config());
  internal::CheckpointEvaluator evaluator(evaluated, run.eval_spec, run.extras.pace);
  const auto background = std::make_shared<internal::BackgroundEvaluation>(
      evaluator, evaluated.model_dir(), run.train_spec.max_steps);
  Hooks hooks = run.rehearsed_event_hooks();
  hooks.push_back(background);
  const TrainResult trained = run.train(hooks);
  background->finish();
  return evaluate_last(evaluator, evaluated, trained);
}

void train_as_chief(const Run& run) {
  internal::rehearse_exports(run.estimator, run.eval_spec);
  log::info(
      "evaluations and exports are left to a task of type evaluator; a task of type master in the "
      "place of this one would do them");
  run.train(run.event_hooks());
}

TrainAndEvaluateResult run_in_cluster(const Run& run) {
  const TaskEnvironment& environment = run.estimator.config().cluster.task;
  if (environment.task.type == job::kPs) {
    serve_parameters(run.estimator.options(), run.estimator.config());
    return {};
  }
  if (!environment.is_chief) {
    run.train({});
    return {};
  }
  if (environment.task.type != job::kChief) return train_as_master(run);
  train_as_chief(run);
  return {};
}

void require_first_evaluator(const TaskSpec& task) {
  if (task.index == 0) return;
  throw InvalidArgument(
      "train_and_evaluate: this task is {}, but there is only one evaluator, of index 0",
      task.name());
}

TrainAndEvaluateResult run_task(Estimator& estimator, const TrainSpec& train_spec,
                                const EvalSpec& eval_spec, const internal::RunExtras& extras) {
  const TaskEnvironment& environment = estimator.config().cluster.task;
  if (environment.cluster.empty() && environment.is_alone()) {
    return train_alone({estimator, train_spec, eval_spec, extras});
  }
  const internal::TaskInLog named(environment.task.name());
  if (environment.is_evaluator()) {
    require_first_evaluator(environment.task);
    return internal::evaluate_training(estimator, train_spec, eval_spec);
  }
  if (environment.is_alone()) return train_alone({estimator, train_spec, eval_spec, extras});
  Estimator member = internal::cluster_member(estimator);
  return run_in_cluster({member, train_spec, eval_spec, extras});
}

}  // namespace

namespace internal {

TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                          const EvalSpec& eval_spec, const RunExtras& extras) {
  train_spec.check();
  eval_spec.check();
  TrainAndEvaluateResult result = run_task(estimator, train_spec, eval_spec, extras);
  if (!result.metrics.empty()) {
    try_to_record(estimator.model_dir(),
                  [&] { note_run_metrics(estimator.model_dir(), result.metrics); });
  }
  return result;
}

}  // namespace internal

TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                          const EvalSpec& eval_spec) {
  return internal::train_and_evaluate(estimator, train_spec, eval_spec, {});
}

}  // namespace muster
