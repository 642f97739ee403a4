#pragma once

#include <functional>
#include <map>
#include <string>
#include <variant>

#include "muster/train/engine/hook.h"
#include "muster/train/hooks/second_or_step_timer.h"

namespace muster {

/// A number in a log line. A double is printed with the digits that a float32 has.
using LoggedValue = std::variant<std::int64_t, double>;
using LoggedValues = std::map<std::string, LoggedValue>;

struct LoggingOptions {
  /// Values to log, by name. Asked for only when a line is due.
  std::map<std::string, std::function<LoggedValue(Session&)>> values{};
  /// At most one of the two is set; neither only together with at_end. Iterations are those of this
  /// process, whatever the global step does.
  std::optional<std::int64_t> every_n_iter{};
  std::optional<Seconds> every_n_secs{};
  /// One more line at the end of a run that had a step.
  bool at_end = false;
  /// Makes the line; not set: `name = value, name = value`, `loss` first, the rest by name.
  std::function<std::string(const LoggedValues&)> formatter{};
  ClockFn clock = std::chrono::steady_clock::now;
};

/// Logs values at the first iteration and then by its period. From the second line on, the default
/// format ends with the time since the line before: ` (0.512 sec)`.
class LoggingHook : public Hook {
 public:
  /// Throws InvalidArgument without values, with an empty function, or on an invalid period.
  explicit LoggingHook(LoggingOptions options);

  void begin(Session& session) override;
  void after_run(Session& session) override;
  void end(Session& session) override;

 private:
  void log_values(Session& session);

  LoggingOptions options_;
  /// Nothing when there is only the line at the end.
  std::optional<SecondOrStepTimer> timer_;
  std::optional<std::chrono::steady_clock::time_point> last_line_;
  std::int64_t iterations_ = 0;
};

/// Hook for the line that an estimator logs by itself: `loss = <v>, step = <n>`.
HookPtr make_loss_logging_hook(std::int64_t every_n_iter);

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
