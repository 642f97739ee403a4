#pragma once

#include <cstddef>
#include <functional>

#include "muster/base/thread_pool.h"
#include "muster/base/wait.h"
#include "muster/nn/device/gpu.h"

namespace muster {

/// Threads that run the lanes of a step beside the loop's thread.
class LaneThreads {
 public:
  /// `cpu_threads` is what libtorch may use in each.
  LaneThreads(std::size_t threads, int cpu_threads);

  /// Runs work(0) in this thread and those up to `count` in the others, whose work for the stream's
  /// device goes there. Returns when all have ended; throws what the first of them that failed
  /// threw. `what` says what is waited for.
  void run(std::size_t count, const StreamHandle& stream,
           const std::function<void(std::size_t)>& work, const WaitReason& what);

 private:
  const int cpu_threads_;
  ThreadPool pool_;
};

}  // namespace muster
