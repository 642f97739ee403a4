#pragma once

#include "muster/engine/hook.h"
#include "muster/hooks/second_or_step_timer.h"

namespace muster {

struct StepCounterOptions {
  /// At most one of the two is set; 100 steps when neither is.
  std::optional<std::int64_t> every_n_steps{};
  std::optional<Seconds> every_n_secs{};
  ClockFn clock = std::chrono::steady_clock::now;
};

/// Logs `global_step/sec: <rate>` and writes it to the event file under that tag, from the second
/// period on. Warns, at most five times, of a step after which the global step is where it was.
class StepCounterHook : public Hook {
 public:
  explicit StepCounterHook(StepCounterOptions options = {});

  void after_create_session(Session& session) override;
  void after_run(Session& session) override;

 private:
  void warn_if_stuck(std::int64_t step);

  SecondOrStepTimer timer_;
  std::optional<std::int64_t> last_step_;
  int warnings_ = 0;
};

}  // namespace muster
