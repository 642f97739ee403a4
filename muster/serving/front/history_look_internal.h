#pragma once

#include <vector>

#include "muster/serving/front/front_server.h"
#include "muster/serving/front/node_history.h"
#include "muster/serving/front/node_metrics.h"

namespace muster::serving {

/// Adds the address and figures of a node that answers.
void note_node(const Node& node, NodeHistory::NodeNow& now);

/// A look at these nodes, with what front and nodes have counted so far.
NodeHistory::Look look_at_front(FrontServer& front, const NodeMetrics& metrics,
                                std::vector<NodeHistory::NodeNow> nodes);

}  // namespace muster::serving
