#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// Statistics of one stage of a running pipeline so far.
struct StageStats {
  /// With its arguments: "shuffle(10000)".
  std::string name;
  /// How far from the consumer: 0 is the last stage.
  std::size_t depth = 0;
  std::uint64_t elements = 0;
  std::uint64_t failures = 0;
  /// The next four are for stages with threads of their own (capacity above 0): elements that are
  /// ready or being made, the most there may be, and how long both sides have waited for each
  /// other.
  std::size_t queue_depth = 0;
  std::size_t queue_capacity = 0;
  std::chrono::nanoseconds producer_wait{};
  std::chrono::nanoseconds consumer_wait{};
  /// The time its threads spent producing, of all threads together.
  std::chrono::nanoseconds busy{};
  std::size_t threads = 0;
};

/// A pipeline at one moment.
struct PipelineStats {
  /// From the consumer up to the sources.
  std::vector<StageStats> stages;
  std::chrono::nanoseconds elapsed{};

  /// Where the time goes, in a sentence: the part of the pipeline that the others wait for.
  std::string bottleneck() const;
  /// A table for people, with bottleneck() as the last line.
  std::string to_text() const;
};

/// The counters of one stage. Each is written by one thread at a time and read by any.
class StageCounters {
 public:
  void count(std::size_t elements, std::size_t failures) {
    bump(elements_, elements);
    if (failures != 0) bump(failures_, failures);
  }
  void set_queue(std::size_t depth, std::size_t capacity, std::size_t threads) {
    depth_.store(depth, std::memory_order_relaxed);
    capacity_.store(capacity, std::memory_order_relaxed);
    threads_.store(threads, std::memory_order_relaxed);
  }
  void add_producer_wait(std::chrono::nanoseconds time) { producer_wait_ += time.count(); }
  void add_consumer_wait(std::chrono::nanoseconds time) { consumer_wait_ += time.count(); }
  void add_busy(std::chrono::nanoseconds time) { busy_ += time.count(); }

  StageStats read(std::string name, std::size_t depth) const;

 private:
  // A plain load and store: cheaper than an atomic addition, and enough for one writer at a time.
  static void bump(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> elements_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::atomic<std::size_t> depth_{0};
  std::atomic<std::size_t> capacity_{0};
  std::atomic<std::size_t> threads_{0};
  std::atomic<std::int64_t> producer_wait_{0};
  std::atomic<std::int64_t> consumer_wait_{0};
  std::atomic<std::int64_t> busy_{0};
};

/// The counters of all stages of one iterator. A stage that is opened again, for another epoch or
/// another file, finds its counters by its place in the pipeline. Safe to use from any thread.
class StatsCollector {
 public:
  StatsCollector() : start_(std::chrono::steady_clock::now()) {}
  std::shared_ptr<StageCounters> counters(const std::string& place, const std::string& name);
  PipelineStats read() const;

 private:
  struct Node {
    std::string name;
    std::shared_ptr<StageCounters> counters;
  };

  std::chrono::steady_clock::time_point start_;
  mutable std::mutex mutex_;
  // Places are paths such as "0.1", so that their order is the pipeline's.
  std::map<std::string, Node> nodes_;
};

}  // namespace muster
