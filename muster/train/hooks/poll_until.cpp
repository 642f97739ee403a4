#include <condition_variable>
#include <mutex>

#include "muster/base/error.h"
#include "muster/base/signals.h"
#include "muster/train/engine/hook.h"
#include "muster/train/hooks/poll_until_internal.h"

namespace muster {
namespace {

// The loop looks at signals between steps only, and we are inside one.
bool is_stopping(const Session& session) {
  return session.stop_requested() || StopSignals::received() != 0;
}

}  // namespace

void poll_until(const Session& session, const Deadline& deadline, std::chrono::milliseconds period,
                const WaitReason& reason, const std::function<bool()>& ready) {
  const BlockingRegion reported(reason);
  const auto begin = Deadline::Clock::now();
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  while (!ready() && !is_stopping(session)) {
    if (deadline.expired()) {
      const std::chrono::duration<double> waited = Deadline::Clock::now() - begin;
      throw DeadlineExceeded("waited {:.1f} s for {}", waited.count(), reason());
    }
    wait_until(never, lock, Deadline::after(period), reason, [] { return false; });
  }
}

}  // namespace muster
