#include "muster/train/hooks/stop_hooks.h"

#include <utility>

#include "muster/base/error.h"

namespace muster {

StopAtTimeHook::StopAtTimeHook(Seconds time_running, ClockFn clock)
    : time_running_(time_running), clock_(std::move(clock)) {
  if (!(time_running_.count() > 0)) {
    throw InvalidArgument("StopAtTimeHook: time_running must be positive: {} s",
                          time_running_.count());
  }
}

void StopAtTimeHook::begin(Session&) { begin_ = clock_(); }

void StopAtTimeHook::after_run(Session& session) {
  if (Seconds(clock_() - begin_) <= time_running_) return;
  session.request_stop(fmt::format("the time limit of {:g} s is over", time_running_.count()));
}

}  // namespace muster
