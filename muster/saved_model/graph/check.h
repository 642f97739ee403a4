#pragma once

#include <string_view>
#include <vector>

#include "muster/saved_model/graph/graph_def.h"

namespace muster::graph {

/// Throws InvalidArgument unless the graph and each of its functions is sound: names that are
/// allowed and used once, inputs that exist and data inputs before control inputs, functions that
/// exist and do not call themselves, no cycles. Loops of TensorFlow 1 (Enter, NextIteration, ...)
/// throw Unimplemented by name. Which operations there are and how many inputs each has is
/// OpRegistry's to check.
void check_graph(const GraphDef& graph);

/// An order in which every node comes after its inputs, data and control: places in `nodes`. Equal
/// graphs give equal orders. Throws as check_graph does for names, inputs and cycles. `arguments`
/// are names that inputs may have beside those of nodes: a function's inputs.
std::vector<std::size_t> topological_order(const std::vector<NodeDef>& nodes,
                                           const std::vector<std::string_view>& arguments = {});

}  // namespace muster::graph
