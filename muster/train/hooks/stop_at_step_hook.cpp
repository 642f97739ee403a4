#include "muster/train/hooks/stop_hooks.h"

#include "muster/base/error.h"

namespace muster {

StopAtStepHook::StopAtStepHook(const StopAtStepOptions& options) : options_(options) {
  if (options.num_steps.has_value() == options.last_step.has_value()) {
    throw InvalidArgument("StopAtStepHook: set exactly one of num_steps and last_step");
  }
  const std::int64_t given = options.num_steps ? *options.num_steps : *options.last_step;
  if (given <= 0) {
    throw InvalidArgument("StopAtStepHook: {} must be positive: {}",
                          options.num_steps ? "num_steps" : "last_step", given);
  }
}

void StopAtStepHook::begin(Session&) { last_step_ = options_.last_step; }

void StopAtStepHook::after_create_session(Session& session) {
  if (!last_step_) last_step_ = session.global_step() + *options_.num_steps;
  after_run(session);
}

void StopAtStepHook::after_run(Session& session) {
  if (session.global_step() < *last_step_) return;
  session.request_stop(fmt::format("step {} is reached", *last_step_));
}

}  // namespace muster
