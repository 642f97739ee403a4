#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "muster/serving/front/node_metrics.h"
#include "muster/serving/front/node_scaler.h"

namespace muster::serving {

/// Looks at the load of nodes all the time, and says twice a second how many there should be. One
/// thread at a time.
class NodeLoad {
 public:
  explicit NodeLoad(const ScalingOptions& options) : scaler_(options) {}

  /// The load now.
  struct Look {
    /// Requests on nodes and those that wait for one.
    std::size_t in_flight = 0;
    std::size_t waiting = 0;
    /// Requests that were answered so far.
    std::uint64_t answers = 0;
    /// Nodes that answer or will soon, and how many there should be.
    std::size_t nodes = 0;
    std::size_t target = 0;
  };
  /// The number of nodes from now on.
  std::size_t look(const Look& now, const NodeMetrics& metrics);

 private:
  double mean_in_flight(std::uint64_t answers);
  std::chrono::microseconds mean_queue_time(const NodeMetrics& metrics);

  NodeScaler scaler_;
  std::chrono::steady_clock::time_point next_decision_{};
  double in_flight_sum_ = 0;
  std::size_t looks_ = 0;
  std::uint64_t answers_ = 0;
  double queue_seconds_ = 0;
  double queued_requests_ = 0;
};

}  // namespace muster::serving
