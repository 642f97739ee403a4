#pragma once

#include <exception>
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

  /// Returns the future result, or exception, of `job()`. A job runs to its end even if its future
  /// is dropped, so it owns what it uses. It is destroyed before the future is ready: the waiting
  /// thread then holds the last reference, and none of these threads has to join them.
  template <typename Job>
  auto run(Job job) -> std::future<std::invoke_result_t<Job&>> {
    using Result = std::invoke_result_t<Job&>;
    const auto owned = std::make_shared<std::optional<Job>>(std::move(job));
    const auto promise = std::make_shared<std::promise<Result>>();
    std::call_once(started_, [this] { pool_.emplace(kThreads); });
    pool_->submit([owned, promise](const std::stop_token&) { keep(*promise, *owned); });
    return promise->get_future();
  }

 private:
  template <typename Result, typename Job>
  static void keep(std::promise<Result>& promise, std::optional<Job>& job) {
    try {
      if constexpr (std::is_void_v<Result>) {
        (*job)();
        job.reset();
        promise.set_value();
      } else {
        Result result = (*job)();
        job.reset();
        promise.set_value(std::move(result));
      }
    } catch (...) {
      job.reset();
      promise.set_exception(std::current_exception());
    }
  }

  // Started when first used: a program that reads no store has no threads for it.
  std::once_flag started_;
  std::optional<ThreadPool> pool_;
};

}  // namespace muster::stores
