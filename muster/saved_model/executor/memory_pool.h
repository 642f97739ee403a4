#pragma once

#include <atomic>
#include <cstdint>

namespace muster::executor {

/// Bytes that the runs of one or several models may hold together. Any thread may use it.
class MemoryPool {
 public:
  explicit MemoryPool(std::int64_t limit) : limit_(limit) {}
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  std::int64_t limit() const { return limit_; }
  std::int64_t taken() const { return taken_.load(std::memory_order_relaxed); }

  /// False, and nothing is taken, where there is no room for so many.
  bool take(std::int64_t bytes) {
    std::int64_t before = taken();
    do {
      if (bytes > limit_ - before) return false;
    } while (!taken_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
    return true;
  }
  void give_back(std::int64_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const std::int64_t limit_;
  std::atomic<std::int64_t> taken_{0};
};

}  // namespace muster::executor
