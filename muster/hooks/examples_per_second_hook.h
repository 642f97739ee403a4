#pragma once

#include "muster/engine/hook.h"
#include "muster/hooks/second_or_step_timer.h"

namespace muster {

struct ExamplesPerSecondOptions {
  /// At most one of the two is set; 100 steps when neither is.
  std::optional<std::int64_t> every_n_steps{};
  std::optional<Seconds> every_n_secs{};
  ClockFn clock = std::chrono::steady_clock::now;
};

/// Logs `Average examples/sec: <average> (<last period>), step = <steps counted>`, from the second
/// period on. Examples are those of all replicas and tasks, so this is the throughput of the
/// whole run.
class ExamplesPerSecondHook : public Hook {
 public:
  explicit ExamplesPerSecondHook(ExamplesPerSecondOptions options = {});

  void begin(Session& session) override;
  void after_create_session(Session& session) override;
  void after_run(Session& session) override;

 private:
  struct Work {
    std::int64_t examples = 0;
    std::int64_t steps = 0;
    Seconds seconds{};
    double rate() const { return static_cast<double>(examples) / seconds.count(); }
  };

  SecondOrStepTimer timer_;
  std::int64_t period_examples_ = 0;
  std::int64_t last_step_ = 0;
  Work total_{};
};

}  // namespace muster
