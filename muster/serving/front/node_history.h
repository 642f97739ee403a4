#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "muster/serving/front/latency_buckets.h"

namespace muster::serving {

/// The nodes of a front as they are, and a day of their figures. Any thread may call it.
class NodeHistory {
 public:
  static constexpr std::chrono::seconds kInterval{10};
  /// A day of them.
  static constexpr std::size_t kMostPoints = 8640;

  struct NodeNow {
    int number = 0;
    /// "up", "starting", "out" or "draining".
    std::string state{};
    /// HOST:PORT; empty while it starts.
    std::string address{};
    /// 0 for one of another host.
    std::int64_t process = 0;
    std::size_t in_flight = 0;
    double latency_ms = 0;
  };
  /// Counts since the start are those of the front and of all nodes, gone ones included.
  struct Look {
    std::chrono::system_clock::time_point time{};
    std::vector<NodeNow> nodes{};
    std::size_t waiting = 0;
    LatencyBuckets latencies{};
    double queue_seconds = 0;
    double queued_requests = 0;
  };

  /// Looks may come more often than points are kept.
  void add(Look look);
  /// The nodes, and the points after `since`, as JSON.
  std::string page(std::chrono::system_clock::time_point since) const;

 private:
  struct Point {
    std::chrono::system_clock::time_point time{};
    std::size_t up = 0;
    std::size_t in_flight = 0;
    std::size_t waiting = 0;
    double answers_per_second = 0;
    double queue_ms = 0;
    double p50_ms = 0;
    double p99_ms = 0;
  };
  Point point_of(const Look& look) const;

  mutable std::mutex mutex_{};
  // At the last point.
  Look before_{};
  std::vector<NodeNow> nodes_{};
  std::deque<Point> points_{};
};

}  // namespace muster::serving
