#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "muster/train/engine/hook.h"

namespace muster {

/// A line on the terminal that is redrawn twice a second: step, rate, loss, time left. Nothing in a
/// file.
class ProgressHook : public Hook {
 public:
  /// Without `last_step` no time left is shown.
  explicit ProgressHook(std::optional<std::int64_t> last_step) : last_step_(last_step) {}

  void after_create_session(Session& session) override;
  void after_run(Session& session) override;
  void end(Session& session) override;

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<std::int64_t> last_step_;
  Clock::time_point next_{};
  Clock::time_point start_{};
  std::int64_t start_step_ = 0;
};

}  // namespace muster
