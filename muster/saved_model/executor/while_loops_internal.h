#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/saved_model/graph/graph_def.h"

namespace muster::executor {

/// A condition or a body that is cut out of a graph: the tensors that its arguments stand for, with
/// the number of the argument, and those that it gives.
struct LoopPart {
  std::vector<std::pair<std::string, std::size_t>> arguments;
  std::vector<std::string> results;
};

/// A graph in which each loop of TensorFlow 1 (Enter, Merge, LoopCond, Switch, NextIteration, Exit)
/// is one While node: its condition and body are parts of the same nodes, by the names that its
/// attributes give. Exits take their values from it. What was inside of a loop is still there, and
/// is reached from the parts alone.
struct LoopedGraph {
  std::vector<graph::NodeDef> nodes;
  std::map<std::string, LoopPart, std::less<>> parts;
};

/// Throws InvalidArgument for a loop that is not whole, Unimplemented for two of one frame name;
/// both name the loop.
LoopedGraph with_while_nodes(const std::vector<graph::NodeDef>& nodes);

}  // namespace muster::executor
