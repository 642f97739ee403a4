#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace muster {

/// As std::counting_semaphore, which of libstdc++ before 12.4 can sleep for ever although it was
/// released (GCC's bug 104928).
class Semaphore {
 public:
  explicit Semaphore(std::int64_t count) : count_(count) {}

  void release(std::int64_t count = 1) {
    // Under the lock: who is woken may destroy this.
    const std::lock_guard lock(mutex_);
    count_ += count;
    changed_.notify_all();
  }

  void acquire() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ > 0; });
    --count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t count_;
};

}  // namespace muster
