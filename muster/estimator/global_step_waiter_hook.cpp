#include "muster/estimator/global_step_waiter_hook.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/base/wait.h"

namespace muster {
namespace {

constexpr std::int64_t kLogEverySteps = 1000;

bool is_stopping(const Session& session) {
  return session.stop_requested() || StopSignals::received() != 0;
}

// Nobody can wake us when a step is made in another process.
void nap(std::chrono::milliseconds span, const WaitReason& reason) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  wait_until(never, lock, Deadline::after(span), reason, [] { return false; });
}

}  // namespace

GlobalStepWaiterHook::GlobalStepWaiterHook(GlobalStepWaiterOptions options)
    : options_(std::move(options)) {
  if (!options_.current_step) {
    options_.current_step = [](Session& session) { return session.global_step(); };
  }
}

void GlobalStepWaiterHook::before_run(Session& session) {
  if (std::exchange(waited_, true) || options_.wait_until_step <= 0) return;
  std::int64_t step = options_.current_step(session);
  if (step >= options_.wait_until_step) return;

  // Read by the watchdog's thread too.
  std::atomic<std::int64_t> seen{step};
  const WaitReason reason = [&seen, until = options_.wait_until_step] {
    return fmt::format("global step {}: it is {}", until, seen.load());
  };
  const BlockingRegion reported(reason);
  const Deadline deadline = Deadline::after(options_.timeout);
  std::int64_t logged = step;
  log::info("Waiting for global step {} before starting training.", options_.wait_until_step);
  while (step < options_.wait_until_step && !is_stopping(session)) {
    if (deadline.expired()) {
      throw DeadlineExceeded("waited {:.1f} s for {}",
                             std::chrono::duration<double>(options_.timeout).count(), reason());
    }
    if (step - logged >= kLogEverySteps) {
      log::info("Waiting for global step {} before starting training. Current step is {}.",
                options_.wait_until_step, step);
      logged = step;
    }
    nap(options_.poll_period, reason);
    step = options_.current_step(session);
    seen = step;
  }
}

}  // namespace muster
