#include "muster/train/hooks/second_or_step_timer.h"

#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

TimerPeriod checked(std::string_view owner, const TimerPeriod& period) {
  if (period.every_steps.has_value() == period.every_secs.has_value()) {
    throw InvalidArgument("{}: set its period either in steps or in seconds, {}", owner,
                          period.every_steps ? "not in both" : "neither is set");
  }
  if (period.every_steps && *period.every_steps <= 0) {
    throw InvalidArgument("{}: its period in steps must be positive: {}", owner,
                          *period.every_steps);
  }
  // Written so that NaN fails too.
  if (period.every_secs && !(period.every_secs->count() > 0)) {
    throw InvalidArgument("{}: its period in seconds must be positive: {}", owner,
                          period.every_secs->count());
  }
  return period;
}

}  // namespace

SecondOrStepTimer::SecondOrStepTimer(std::string_view owner, const TimerPeriod& period,
                                     ClockFn clock)
    : period_(checked(owner, period)), clock_(std::move(clock)) {}

bool SecondOrStepTimer::should_trigger(std::int64_t step) const {
  if (!last_) return true;
  if (step == last_->step) return false;
  if (period_.every_steps) return step - last_->step >= *period_.every_steps;
  return Seconds(clock_() - last_->time) >= *period_.every_secs;
}

std::optional<SecondOrStepTimer::Elapsed> SecondOrStepTimer::update_last_triggered(
    std::int64_t step) {
  const Trigger now{step, clock_()};
  const auto last = std::exchange(last_, now);
  if (!last) return std::nullopt;
  return Elapsed{now.time - last->time, now.step - last->step};
}

std::optional<std::int64_t> SecondOrStepTimer::last_triggered_step() const {
  if (!last_) return std::nullopt;
  return last_->step;
}

}  // namespace muster
