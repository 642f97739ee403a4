#pragma once

#include <chrono>
#include <functional>

#include "muster/train/engine/hook.h"

namespace muster {

struct GlobalStepWaiterOptions {
  /// 0 and below do not wait.
  std::int64_t wait_until_step = 0;
  std::chrono::milliseconds poll_period{500};
  /// How long to wait at most.
  std::chrono::milliseconds timeout = std::chrono::hours(2);
  /// Where the others are; not set: the session's global step. It may take its time.
  std::function<std::int64_t(Session&)> current_step{};
};

/// Delays the first step of this process until others have brought the global step to a number, so
/// that workers come in one after the other. A run that is asked to stop waits no longer.
class GlobalStepWaiterHook : public Hook {
 public:
  explicit GlobalStepWaiterHook(GlobalStepWaiterOptions options);

  void begin(Session& session) override;
  /// Throws DeadlineExceeded, naming both steps, when the time is over.
  void before_run(Session& session) override;

 private:
  void wait_for_step(Session& session, std::int64_t first_step) const;

  GlobalStepWaiterOptions options_;
  bool waited_ = false;
};

}  // namespace muster
