#include <utility>

#include "muster/serving/front/history_look_internal.h"

namespace muster::serving {

void note_node(const Node& node, NodeHistory::NodeNow& now) {
  now.address = node.address.text;
  now.in_flight = node.in_flight;
  now.latency_ms =
      std::chrono::duration<double, std::milli>(Node::Clock::duration(node.latency)).count();
}

NodeHistory::Look look_at_front(FrontServer& front, const NodeMetrics& metrics,
                                std::vector<NodeHistory::NodeNow> nodes) {
  return {.time = std::chrono::system_clock::now(),
          .nodes = std::move(nodes),
          .waiting = front.waiting(),
          .latencies = front.counts().latencies(),
          .queue_seconds = metrics.total("muster_request_queue_duration_seconds_sum"),
          .queued_requests = metrics.total("muster_request_queue_duration_seconds_count")};
}

}  // namespace muster::serving
