#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "muster/base/wait.h"

namespace muster {

/// How a queue has been used, for "where is the bottleneck?": a consumer that waits is faster than
/// its producer, and the other way round.
struct QueueStats {
  std::size_t capacity = 0;
  std::size_t depth = 0;
  std::uint64_t pushed = 0;
  std::uint64_t popped = 0;
  std::chrono::nanoseconds push_wait{};
  std::chrono::nanoseconds pop_wait{};
};

/// A first-in-first-out queue of at most `capacity` items between threads. Closing it wakes
/// everybody: pushes are refused from then on, and pops hand out what is left.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity == 0 ? 1 : capacity) {}

  /// Blocks while the queue is full. False when it was closed, and the item is dropped.
  /// Throws DeadlineExceeded, naming the reason.
  bool push(T item, const WaitReason& reason, const Deadline& deadline = Deadline::never()) {
    std::unique_lock lock(mutex_);
    if (!closed_ && items_.size() >= capacity_) {
      const auto start = Deadline::Clock::now();
      wait(not_full_, lock, deadline, reason,
           [this] { return closed_ || items_.size() < capacity_; });
      stats_.push_wait += Deadline::Clock::now() - start;
    }
    if (closed_) return false;
    items_.push_back(std::move(item));
    ++stats_.pushed;
    lock.unlock();
    not_empty_.notify_one();
    return true;
  }

  /// Blocks while the queue is empty and open. Nothing once it is closed and drained.
  /// Throws DeadlineExceeded, naming the reason.
  std::optional<T> pop(const WaitReason& reason, const Deadline& deadline = Deadline::never()) {
    std::unique_lock lock(mutex_);
    if (!closed_ && items_.empty()) {
      const auto start = Deadline::Clock::now();
      wait(not_empty_, lock, deadline, reason, [this] { return closed_ || !items_.empty(); });
      stats_.pop_wait += Deadline::Clock::now() - start;
    }
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    ++stats_.popped;
    lock.unlock();
    not_full_.notify_one();
    return item;
  }

  /// No more pushes; what is queued can still be popped.
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    not_full_.notify_all();
    not_empty_.notify_all();
  }

  QueueStats stats() const {
    std::lock_guard lock(mutex_);
    QueueStats stats = stats_;
    stats.capacity = capacity_;
    stats.depth = items_.size();
    return stats;
  }

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable not_full_;
  std::condition_variable not_empty_;
  std::deque<T> items_;
  bool closed_ = false;
  QueueStats stats_;
};

}  // namespace muster
