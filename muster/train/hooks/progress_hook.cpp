#include "muster/train/hooks/progress_hook.h"

#include <fmt/core.h>

#include "muster/base/log.h"

namespace muster {

void ProgressHook::after_create_session(Session& session) {
  start_ = Clock::now();
  start_step_ = session.global_step();
}

void ProgressHook::after_run(Session& session) {
  if (!log::shows_progress()) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(500);
  const std::int64_t step = session.global_step();
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(step - start_step_) / seconds : 0.0;
  std::string line = fmt::format("step {}", step);
  if (last_step_) line += fmt::format("/{}", *last_step_);
  line += fmt::format(", {:.1f} steps/s, loss {:.4g}", rate, session.loss());
  if (last_step_ && rate > 0)
    line += fmt::format(", {:.0f} s left", static_cast<double>(*last_step_ - step) / rate);
  log::progress(line);
}

void ProgressHook::end(Session&) { log::progress(""); }

}  // namespace muster
