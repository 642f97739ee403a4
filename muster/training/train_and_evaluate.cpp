#include "muster/training/train_and_evaluate.h"

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/training/checkpoint_evaluator_internal.h"
#include "muster/training/inference_graph_hook_internal.h"

namespace muster {
namespace {

/// Evaluates while training goes on. The last checkpoint is left to the end of train_and_evaluate,
/// when the memory of the training is free again.
class EvaluatingListener : public CheckpointSaverListener {
 public:
  EvaluatingListener(internal::CheckpointEvaluator& evaluator,
                     std::optional<std::int64_t> max_steps)
      : evaluator_(evaluator), max_steps_(max_steps) {}

  void begin(Session& session) override { first_step_ = session.global_step(); }

  bool after_save(Session& session, std::int64_t step) override {
    const bool is_last = session.stop_requested() || (max_steps_ && step >= *max_steps_);
    if (step == first_step_ || is_last || !evaluator_.is_due(step)) return false;
    evaluator_.evaluate(session.config().model_dir / fmt::format("model.ckpt-{}", step),
                        /*is_the_final_export=*/false);
    return false;
  }

 private:
  internal::CheckpointEvaluator& evaluator_;
  std::optional<std::int64_t> max_steps_;
  std::int64_t first_step_ = -1;
};

void require_one_process(const RunConfig& config) {
  const TaskEnvironment& environment = config.task;
  if (environment.is_alone()) return;
  throw Unimplemented(
      "train_and_evaluate runs in one process so far, but {} makes this task {} of a cluster; "
      "unset "
      "it to train here alone",
      environment.source, environment.task.name());
}

}  // namespace

TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                          const EvalSpec& eval_spec) {
  train_spec.check();
  eval_spec.check();
  require_one_process(estimator.config());
  internal::CheckpointEvaluator evaluator(estimator, eval_spec);
  Hooks hooks = train_spec.hooks;
  hooks.push_back(std::make_shared<internal::InferenceGraphHook>(estimator, eval_spec));
  const TrainResult trained = estimator.train(
      train_spec.input_fn, {.max_steps = train_spec.max_steps,
                            .hooks = std::move(hooks),
                            .saving_listeners = {std::make_shared<EvaluatingListener>(
                                evaluator, train_spec.max_steps)}});
  const auto latest = estimator.latest_checkpoint();
  if (!latest) {
    throw NotFound(
        "{} has no checkpoint to evaluate after training: the log says why none was "
        "saved",
        estimator.model_dir().string());
  }
  if (trained.steps == 0) {
    log::info("nothing was trained: step {} is reached already; evaluating {}", trained.global_step,
              latest->string());
  }
  evaluator.evaluate(*latest, /*is_the_final_export=*/true);
  return evaluator.result();
}

}  // namespace muster
