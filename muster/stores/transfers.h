#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "muster/base/thread_pool.h"

namespace muster::stores {

/// The threads in which ranges and parts travel. A job that waits for another one must not run
/// here.
class Transfers {
 public:
  static constexpr std::size_t kThreads = 16;

  /// What `job()` returns or throws. It runs to its end also when nobody waits for it, so it owns
  /// what it uses.
  template <typename Job>
  auto run(Job job) -> std::future<std::invoke_result_t<Job&>> {
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Job&>()>>(std::move(job));
    auto result = task->get_future();
    std::call_once(started_, [this] { pool_.emplace(kThreads); });
    pool_->submit([task](const std::stop_token&) { (*task)(); });
    return result;
  }

 private:
  // Started when first used: a program that reads no store has no threads for it.
  std::once_flag started_;
  std::optional<ThreadPool> pool_;
};

}  // namespace muster::stores
