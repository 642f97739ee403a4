#pragma once

#include "muster/engine/hook.h"
#include "muster/hooks/second_or_step_timer.h"

namespace muster {

/// Ends a run after the first step that ends later than `time_running` after its begin.
class StopAtTimeHook : public Hook {
 public:
  /// Throws InvalidArgument unless the time is positive.
  explicit StopAtTimeHook(Seconds time_running, ClockFn clock = std::chrono::steady_clock::now);

  void begin(Session& session) override;
  void after_run(Session& session) override;

 private:
  Seconds time_running_;
  ClockFn clock_;
  std::chrono::steady_clock::time_point begin_{};
};

}  // namespace muster
