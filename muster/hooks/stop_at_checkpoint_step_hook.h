#pragma once

#include <chrono>

#include "muster/engine/hook.h"

namespace muster {

struct StopAtCheckpointStepOptions {
  std::int64_t last_step = 0;
  std::chrono::milliseconds wait_after_file_check = std::chrono::seconds(30);
  /// How long to wait for the checkpoint at most.
  std::chrono::milliseconds timeout = std::chrono::hours(2);
};

/// Ends a run at a global step: the chief there, every other task when it sees the checkpoint of
/// that step, or a later one, in the model folder. So nobody leaves while the chief still needs it.
class StopAtCheckpointStepHook : public Hook {
 public:
  /// Throws InvalidArgument unless last_step is positive.
  explicit StopAtCheckpointStepHook(const StopAtCheckpointStepOptions& options);

  /// Throws DeadlineExceeded, naming the checkpoint, when the time is over.
  void after_run(Session& session) override;

 private:
  StopAtCheckpointStepOptions options_;
};

}  // namespace muster
