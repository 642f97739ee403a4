#include "muster/base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "muster/base/control_group.h"
#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster {

struct ThreadPool::Impl {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<Job> jobs;
  std::vector<std::jthread> threads;

  // An idle pool waits for work, not for a peer: no deadline, no stall report.
  void run(const std::stop_token& stop) {
    for (;;) {
      std::unique_lock lock(mutex);
      if (!changed.wait(lock, stop, [this] { return !jobs.empty(); })) return;
      if (stop.stop_requested()) return;
      const Job job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      try {
        job(stop);
      } catch (...) {
        log::error("a thread pool's job failed: {}", describe(std::current_exception()).message);
      }
    }
  }
};

ThreadPool::ThreadPool(std::size_t threads) : impl_(std::make_unique<Impl>()) {
  if (threads == 0) threads = available_processors();
  for (std::size_t i = 0; i < threads; ++i) {
    impl_->threads.emplace_back(
        [impl = impl_.get()](const std::stop_token& stop) { impl->run(stop); });
  }
}

ThreadPool::~ThreadPool() {
  // All are asked first, so that they wind down side by side; each jthread then joins.
  for (auto& thread : impl_->threads) thread.request_stop();
  impl_->threads.clear();
}

void ThreadPool::submit(Job job) {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->jobs.push_back(std::move(job));
  }
  impl_->changed.notify_one();
}

std::size_t ThreadPool::size() const { return impl_->threads.size(); }

std::vector<int> ThreadPool::allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> allowed;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return allowed;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(static_cast<std::size_t>(processor), &set)) allowed.push_back(processor);
  }
  return allowed;
}

std::size_t ThreadPool::available_processors() {
  const std::size_t allowed = allowed_processors().size();
  const std::size_t all = allowed > 0 ? allowed : std::max(1U, std::thread::hardware_concurrency());
  if (all == 1) return all;
  // A part of a processor is one more thread: it is there to be used.
  static const std::optional<double> quota = processor_quota();
  return quota ? std::min(all, static_cast<std::size_t>(std::max(1.0, std::ceil(*quota)))) : all;
}

}  // namespace muster
