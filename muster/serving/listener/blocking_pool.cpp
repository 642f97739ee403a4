#include "muster/serving/listener/blocking_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace muster::serving {
namespace {

void be_nicer(int steps) {
  const auto self = static_cast<id_t>(::gettid());
  errno = 0;
  const int now = ::getpriority(PRIO_PROCESS, self);
  if (errno == 0) ::setpriority(PRIO_PROCESS, self, now + steps);
}

}  // namespace

struct BlockingPool::Impl {
  struct Worker {
    std::condition_variable woken{};
    Job job{};
    std::jthread thread{};
  };

  Options options{};
  std::mutex mutex{};
  std::deque<Job> waiting{};
  // The last to become idle is the first to be woken.
  std::vector<Worker*> idle{};
  bool closed = false;
  // The last member: it goes first, and with it the threads.
  std::list<Worker> workers{};

  void work(Worker& self) {
    if (options.niceness != 0) be_nicer(options.niceness);
    std::unique_lock lock(mutex);
    while (true) {
      if (!self.job && !waiting.empty()) {
        self.job = std::move(waiting.front());
        waiting.pop_front();
      }
      if (self.job) {
        const Job job = std::exchange(self.job, nullptr);
        lock.unlock();
        job();
        lock.lock();
        continue;
      }
      if (closed) return;
      idle.push_back(&self);
      self.woken.wait(lock, [&] { return self.job || closed; });
    }
  }
};

BlockingPool::BlockingPool(Options options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
}

BlockingPool::~BlockingPool() {
  const std::lock_guard lock(impl_->mutex);
  impl_->closed = true;
  for (Impl::Worker* worker : impl_->idle) worker->woken.notify_one();
}

bool BlockingPool::run(Job job) {
  Impl& impl = *impl_;
  const std::lock_guard lock(impl.mutex);
  if (!impl.idle.empty()) {
    Impl::Worker& worker = *impl.idle.back();
    impl.idle.pop_back();
    worker.job = std::move(job);
    worker.woken.notify_one();
    return true;
  }
  if (impl.workers.size() < impl.options.threads) {
    Impl::Worker& worker = impl.workers.emplace_back();
    worker.job = std::move(job);
    worker.thread = std::jthread([&impl, &worker] { impl.work(worker); });
    return true;
  }
  if (impl.waiting.size() >= impl.options.waiting) return false;
  impl.waiting.push_back(std::move(job));
  return true;
}

}  // namespace muster::serving
