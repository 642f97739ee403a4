#include "muster/train/hooks/logging_hooks.h"

#include <utility>

#include "muster/base/log.h"
#include "muster/data/summary/event_writer.h"

namespace muster {
namespace {

constexpr std::int64_t kCounterSteps = 100;
constexpr int kMaxWarnings = 5;
constexpr const char* kTag = "global_step/sec";

TimerPeriod period_of(const StepCounterOptions& options) {
  if (!options.every_n_steps && !options.every_n_secs) return {.every_steps = kCounterSteps};
  return {.every_steps = options.every_n_steps, .every_secs = options.every_n_secs};
}

}  // namespace

StepCounterHook::StepCounterHook(StepCounterOptions options)
    : timer_("StepCounterHook", period_of(options), std::move(options.clock)) {}

void StepCounterHook::after_create_session(Session&) {
  timer_.reset();
  last_step_.reset();
}

void StepCounterHook::after_run(Session& session) {
  const std::int64_t step = session.global_step();
  warn_if_stuck(step);
  if (!timer_.should_trigger(step)) return;
  const auto elapsed = timer_.update_last_triggered(step);
  // No time at all between two triggers says nothing of the rate.
  if (!elapsed || elapsed->seconds.count() <= 0) return;
  const double rate = static_cast<double>(elapsed->steps) / elapsed->seconds.count();
  log::info("{}: {:g}", kTag, rate);
  session.events().add_scalar(kTag, rate, step);
}

void StepCounterHook::warn_if_stuck(std::int64_t step) {
  if (std::exchange(last_step_, step) != step || warnings_ == kMaxWarnings) return;
  ++warnings_;
  log::warning("the global step did not move: step={}; no optimizer makes an update", step);
}

}  // namespace muster
