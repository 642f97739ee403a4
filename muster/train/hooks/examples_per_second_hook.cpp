#include "muster/train/hooks/logging_hooks.h"

#include <algorithm>
#include <utility>

#include "muster/base/log.h"

namespace muster {
namespace {

constexpr std::int64_t kExamplesSteps = 100;

TimerPeriod period_of(const ExamplesPerSecondOptions& options) {
  if (!options.every_n_steps && !options.every_n_secs) return {.every_steps = kExamplesSteps};
  return {.every_steps = options.every_n_steps, .every_secs = options.every_n_secs};
}

}  // namespace

ExamplesPerSecondHook::ExamplesPerSecondHook(ExamplesPerSecondOptions options)
    : timer_("ExamplesPerSecondHook", period_of(options), std::move(options.clock)) {}

void ExamplesPerSecondHook::begin(Session&) { total_ = {}; }

void ExamplesPerSecondHook::after_create_session(Session& session) {
  timer_.reset();
  last_step_ = session.global_step();
}

void ExamplesPerSecondHook::after_run(Session& session) {
  // A step that others made meanwhile, where each makes its own, had as many.
  const std::int64_t steps =
      session.global_step() - std::exchange(last_step_, session.global_step());
  period_examples_ += session.step_examples() * std::max<std::int64_t>(1, steps);
  if (!timer_.should_trigger(session.global_step())) return;
  const auto elapsed = timer_.update_last_triggered(session.global_step());
  const std::int64_t examples = std::exchange(period_examples_, 0);
  if (!elapsed || elapsed->seconds.count() <= 0) return;
  const Work period{examples, elapsed->steps, elapsed->seconds};
  total_.examples += period.examples;
  total_.steps += period.steps;
  total_.seconds += period.seconds;
  log::info("Average examples/sec: {:g} ({:g}), step = {:g}", total_.rate(), period.rate(),
            static_cast<double>(total_.steps));
}

}  // namespace muster
