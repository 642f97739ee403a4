#include "muster/train/hooks/global_step_waiter_hook.h"

#include <atomic>
#include <utility>

#include "muster/base/log.h"
#include "muster/train/hooks/poll_until_internal.h"

namespace muster {
namespace {

constexpr std::int64_t kLogEverySteps = 1000;

}  // namespace

GlobalStepWaiterHook::GlobalStepWaiterHook(GlobalStepWaiterOptions options)
    : options_(std::move(options)) {
  if (!options_.current_step) {
    options_.current_step = [](Session& session) { return session.global_step(); };
  }
}

void GlobalStepWaiterHook::begin(Session&) { waited_ = false; }

void GlobalStepWaiterHook::before_run(Session& session) {
  if (std::exchange(waited_, true) || options_.wait_until_step <= 0) return;
  wait_for_step(session, options_.current_step(session));
}

void GlobalStepWaiterHook::wait_for_step(Session& session, std::int64_t first_step) const {
  const std::int64_t until = options_.wait_until_step;
  if (first_step >= until) return;
  log::info("Waiting for global step {} before starting training.", until);
  std::atomic<std::int64_t> step = first_step;
  std::int64_t logged = first_step;
  const auto reason = [&] { return fmt::format("global step {}: it is {}", until, step.load()); };
  poll_until(session, Deadline::after(options_.timeout), options_.poll_period, reason, [&] {
    step = options_.current_step(session);
    if (step >= until) return true;
    if (step - logged >= kLogEverySteps) {
      log::info("Waiting for global step {} before starting training. Current step is {}.", until,
                step.load());
      logged = step;
    }
    return false;
  });
}

}  // namespace muster
