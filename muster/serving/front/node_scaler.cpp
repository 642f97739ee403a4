#include "muster/serving/front/node_scaler.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

// A decision at most doubles the nodes: the next one sees what that has changed.
constexpr double kMostGrowth = 2;
// Fewer requests in flight than this, on the average, are none that a node must be kept for: probes
// are not among them.
constexpr double kIdle = 1e-9;

}  // namespace

NodeScaler::NodeScaler(const ScalingOptions& options) : options_(options) {
  if (options.max_nodes == 0) throw InvalidArgument("--max-nodes must be positive: 0");
  if (options.min_nodes > options.max_nodes) {
    throw InvalidArgument("--min-nodes must not be more than --max-nodes: {} and {}",
                          options.min_nodes, options.max_nodes);
  }
  if (options.slots_per_node == 0) throw InvalidArgument("a node computes one request at least");
}

std::size_t NodeScaler::needed(const LoadSample& sample) const {
  if (sample.in_flight < kIdle && sample.waiting == 0) return 0;
  // Enough that each request in flight can be computed.
  const auto slots = static_cast<double>(options_.slots_per_node);
  const double by_flight = std::max(1.0, std::ceil(sample.in_flight / slots));
  if (sample.queue_time <= options_.queue_time) {
    // They need not wait: what is there is enough.
    return std::min(static_cast<std::size_t>(by_flight), std::max<std::size_t>(sample.nodes, 1));
  }
  const double growth = std::min(
      kMostGrowth, static_cast<double>(sample.queue_time.count()) /
                       static_cast<double>(std::max<std::int64_t>(1, options_.queue_time.count())));
  const double grown = std::ceil(growth * static_cast<double>(sample.nodes));
  const double one_more = static_cast<double>(sample.nodes + 1);
  return static_cast<std::size_t>(std::max(grown, one_more));
}

std::size_t NodeScaler::target(const LoadSample& sample) {
  // Nodes that are there from before count as needed until a cool-down has shown otherwise.
  if (needs_.empty()) needs_.push_back({.time = sample.time, .nodes = sample.nodes});
  const std::size_t now = std::clamp(needed(sample), options_.min_nodes, options_.max_nodes);
  while (!needs_.empty() && needs_.back().nodes <= now) needs_.pop_back();
  needs_.push_back({.time = sample.time, .nodes = now});
  while (sample.time - needs_.front().time > options_.cool_down) needs_.pop_front();
  return needs_.front().nodes;
}

}  // namespace muster::serving
