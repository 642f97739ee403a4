#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace muster {

using Seconds = std::chrono::duration<double>;

/// The clock that hooks go by; tests give one of their own.
using ClockFn = std::function<std::chrono::steady_clock::time_point()>;

/// How often something happens: exactly one of the two is set.
struct TimerPeriod {
  std::optional<std::int64_t> every_steps{};
  std::optional<Seconds> every_secs{};
};

/// Says at which steps something that happens now and then is due. A value; belongs to one thread.
class SecondOrStepTimer {
 public:
  struct Elapsed {
    Seconds seconds{};
    std::int64_t steps = 0;
  };

  /// Throws InvalidArgument, beginning with `owner`, unless exactly one period is set and positive.
  SecondOrStepTimer(std::string_view owner, const TimerPeriod& period,
                    ClockFn clock = std::chrono::steady_clock::now);

  /// True for the first step asked about, never for the step of the last trigger, and else once the
  /// period has passed since then. With a period in steps the clock is not read.
  bool should_trigger(std::int64_t step) const;
  /// Counts from here on. What has passed since the last trigger; nothing the first time.
  std::optional<Elapsed> update_last_triggered(std::int64_t step);
  std::optional<std::int64_t> last_triggered_step() const;
  /// As if there had been no trigger: for a run that went back to an earlier step.
  void reset() { last_.reset(); }

 private:
  struct Trigger {
    std::int64_t step = 0;
    std::chrono::steady_clock::time_point time{};
  };

  TimerPeriod period_;
  ClockFn clock_;
  std::optional<Trigger> last_;
};

}  // namespace muster
