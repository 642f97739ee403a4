#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace muster::serving {

/// Threads that answer calls, as many as are needed at one time up to a limit, and kept from then
/// on. The one that was last at work is the next to work, since its caches are warm. Any thread may
/// bring a job.
class BlockingPool {
 public:
  /// It must not throw.
  using Job = std::function<void()>;

  struct Options {
    std::size_t threads = 1;
    /// Jobs that may wait when all threads are busy.
    std::size_t waiting = 1;
    /// Increment of the niceness of the threads, and of those that they start: others go
    /// before them where processors are scarce.
    int niceness = 0;
  };
  explicit BlockingPool(Options options);
  /// Runs what waits, and ends the threads.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  /// False when there is no room: the job is dropped.
  bool run(Job job);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
