#pragma once

#include <chrono>
#include <optional>

#include "muster/train/engine/hook.h"
#include "muster/train/hooks/second_or_step_timer.h"

namespace muster {

/// Ends a run whose loss is NaN: with an error, or, told not to fail, with a warning and an orderly
/// stop. It asks for the loss after every step, which on a GPU waits for the device.
///
/// In training NanPolicy acts earlier, before the bad step changes the variables; this hook is for
/// evaluation, and for those who want a run that ends in order.
class NanHook : public Hook {
 public:
  explicit NanHook(bool fail_on_nan_loss = true) : fail_on_nan_loss_(fail_on_nan_loss) {}

  /// Throws FailedPrecondition, naming the step.
  void after_run(Session& session) override;

 private:
  bool fail_on_nan_loss_;
};

/// Exactly one of the two is set.
struct StopAtStepOptions {
  /// So many steps from where the run begins; a roll-back does not move the end.
  std::optional<std::int64_t> num_steps{};
  /// Up to this global step.
  std::optional<std::int64_t> last_step{};
};

/// Ends a run at a global step. A run that is there already is asked to stop before its first step.
class StopAtStepHook : public Hook {
 public:
  /// Throws InvalidArgument unless exactly one is set and positive.
  explicit StopAtStepHook(const StopAtStepOptions& options);

  void begin(Session& session) override;
  void after_create_session(Session& session) override;
  void after_run(Session& session) override;

 private:
  StopAtStepOptions options_;
  std::optional<std::int64_t> last_step_;
};

struct StopAtCheckpointStepOptions {
  std::int64_t last_step = 0;
  std::chrono::milliseconds wait_after_file_check = std::chrono::seconds(30);
  /// How long to wait for the checkpoint at most.
  std::chrono::milliseconds timeout = std::chrono::hours(2);
};

/// Ends a run at a global step: the chief there, every other task when it sees the checkpoint of
/// that step, or a later one, in the model folder. So no task leaves while the chief needs it.
class StopAtCheckpointStepHook : public Hook {
 public:
  /// Throws InvalidArgument unless last_step is positive.
  explicit StopAtCheckpointStepHook(const StopAtCheckpointStepOptions& options);

  /// Throws DeadlineExceeded, naming the checkpoint, when the time is over.
  void after_run(Session& session) override;

 private:
  StopAtCheckpointStepOptions options_;
};

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
