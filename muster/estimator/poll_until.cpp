#include <condition_variable>
#include <mutex>

#include "muster/base/error.h"
#include "muster/estimator/poll_until_internal.h"

namespace muster {

void poll_until(const Deadline& deadline, std::chrono::milliseconds period,
                const WaitReason& reason, const std::function<bool()>& ready) {
  const BlockingRegion reported(reason);
  const auto begin = Deadline::Clock::now();
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  while (!ready()) {
    if (deadline.expired()) {
      const std::chrono::duration<double> waited = Deadline::Clock::now() - begin;
      throw DeadlineExceeded("waited {:.1f} s for {}", waited.count(), reason());
    }
    wait_until(never, lock, Deadline::after(period), reason, [] { return false; });
  }
}

}  // namespace muster
