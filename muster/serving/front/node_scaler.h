#pragma once

#include <chrono>
#include <cstddef>
#include <deque>

namespace muster::serving {

struct ScalingOptions {
  std::size_t min_nodes = 1;
  std::size_t max_nodes = 1;
  /// Requests that a node computes at one time.
  std::size_t slots_per_node = 1;
  /// Requests that waited longer than this on the average ask for more nodes.
  std::chrono::microseconds queue_time{20'000};
  /// Nodes that were not needed for so long end.
  std::chrono::milliseconds cool_down{60'000};
};

/// The load, as it is seen at a time.
struct LoadSample {
  std::chrono::steady_clock::time_point time{};
  /// Requests on nodes and those that wait for one, on the average since the last sample.
  double in_flight = 0;
  /// The mean time that requests waited in the nodes' queues since the last sample.
  std::chrono::microseconds queue_time{0};
  /// Requests that wait since there is no node.
  std::size_t waiting = 0;
  /// Nodes that answer or will soon.
  std::size_t nodes = 0;
};

/// How many nodes there should be: more as soon as requests wait, fewer when a cool-down has shown
/// that fewer do. A function of the samples alone.
class NodeScaler {
 public:
  /// Throws InvalidArgument for more nodes at least than at most, and for no node at most.
  explicit NodeScaler(const ScalingOptions& options);

  std::size_t target(const LoadSample& sample);

 private:
  struct Need {
    std::chrono::steady_clock::time_point time{};
    std::size_t nodes = 0;
  };
  std::size_t needed(const LoadSample& sample) const;

  const ScalingOptions options_;
  /// Those of the last cool-down, by time; each greater than those after it.
  std::deque<Need> needs_{};
};

}  // namespace muster::serving
