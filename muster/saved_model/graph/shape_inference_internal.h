#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "muster/saved_model/graph/graph_def.h"

namespace muster::graph {

/// The shapes of a graph's tensors, as far as the operations of feature columns and parsers tell
/// them. One belongs to one thread.
class ShapeInference {
 public:
  /// The graph must have passed check_graph() and outlive this.
  explicit ShapeInference(const GraphDef& graph);

  /// The shape of the node's output `index`; of any rank where it is not known. Looks at no more
  /// than `depth` nodes one before the other.
  Shape shape_of(std::string_view node, int index, int depth = 64) const;
  const NodeDef& node(std::string_view name) const;

 private:
  std::map<std::string_view, const NodeDef*> nodes_;
  // Shapes found before: a node that many take twice would be looked at without end.
  mutable std::map<std::pair<std::string_view, int>, Shape> known_;
};

}  // namespace muster::graph
