#include "muster/train/engine/lane_threads.h"

#include <condition_variable>
#include <exception>
#include <mutex>

#include "muster/train/engine/arithmetic.h"

namespace muster {
namespace {

/// The lanes of one call of run().
struct RunningLanes {
  std::mutex mutex{};
  std::condition_variable one_ended{};
  std::size_t running = 0;
  std::exception_ptr failure{};
};

}  // namespace

LaneThreads::LaneThreads(std::size_t threads, int cpu_threads)
    : cpu_threads_(cpu_threads), pool_(threads) {}

void LaneThreads::run(std::size_t count, const StreamHandle& stream,
                      const std::function<void(std::size_t)>& work, const WaitReason& what) {
  RunningLanes lanes{.running = count};
  const auto guarded = [&lanes, &work](std::size_t number) {
    std::exception_ptr failure;
    try {
      work(number);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(lanes.mutex);
    if (failure && !lanes.failure) lanes.failure = failure;
    --lanes.running;
    lanes.one_ended.notify_one();
  };
  for (std::size_t number = 1; number < count; ++number) {
    pool_.submit([this, guarded, number, &stream](const std::stop_token&) {
      set_cpu_threads(cpu_threads_);
      stream.use();
      guarded(number);
    });
  }
  guarded(0);
  std::unique_lock lock(lanes.mutex);
  muster::wait(lanes.one_ended, lock, Deadline::never(), what,
               [&lanes] { return lanes.running == 0; });
  if (lanes.failure) std::rethrow_exception(lanes.failure);
}

}  // namespace muster
