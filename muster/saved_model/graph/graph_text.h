#pragma once

#include <string>
#include <string_view>

#include "muster/saved_model/graph/graph_def.h"

namespace muster::graph {

/// A graph in protobuf's text format, as in TensorFlow's graph.pbtxt: the same text for equal
/// graphs.
std::string to_text(const GraphDef& graph);

/// Reads that format. Throws DataLoss with line and column, ResourceExhausted beyond a limit.
GraphDef parse_graph_text(std::string_view text, const GraphLimits& limits = {});

}  // namespace muster::graph
