#include "muster/train/estimator/in_memory_evaluator_hook.h"

#include <utility>

#include "muster/base/error.h"

namespace muster {

InMemoryEvaluatorHook::InMemoryEvaluatorHook(Estimator estimator, InputFn input_fn,
                                             InMemoryEvaluatorOptions options)
    : estimator_(std::move(estimator)),
      input_fn_(std::move(input_fn)),
      options_{.steps = options.steps,
               .hooks = std::move(options.hooks),
               .name = std::move(options.name)},
      timer_("InMemoryEvaluatorHook", {.every_steps = options.every_n_iter}) {
  if (!input_fn_) throw InvalidArgument("InMemoryEvaluatorHook: input_fn is not set");
  if (options_.steps && *options_.steps <= 0) {
    throw InvalidArgument("InMemoryEvaluatorHook: steps must be positive: {}", *options_.steps);
  }
  const TaskEnvironment& environment = estimator_.config().cluster.task;
  if (!environment.is_alone() && !environment.is_evaluator()) {
    throw InvalidArgument(
        "InMemoryEvaluatorHook evaluates what one process trains alone, and this one is {} of a "
        "cluster; use train_and_evaluate, which evaluates checkpoints",
        environment.task.name());
  }
}

void InMemoryEvaluatorHook::begin(Session&) {
  timer_.reset();
  iterations_ = 0;
}

// After a roll-back there is nothing new to see: these values were evaluated, or will be soon.
void InMemoryEvaluatorHook::after_create_session(Session& session) {
  if (!timer_.last_triggered_step()) evaluate(session);
}

void InMemoryEvaluatorHook::after_run(Session& session) {
  ++iterations_;
  if (timer_.should_trigger(iterations_)) evaluate(session);
}

void InMemoryEvaluatorHook::end(Session& session) {
  if (timer_.last_triggered_step() != iterations_) evaluate(session);
}

void InMemoryEvaluatorHook::evaluate(Session& session) {
  timer_.update_last_triggered(iterations_);
  estimator_.evaluate(session, input_fn_, options_);
}

}  // namespace muster
