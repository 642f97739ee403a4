#include <algorithm>
#include <vector>

#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

/// Walks backwards: a node is needed for what it makes or changes that is read after it, or there
/// after the step.
class LiveNodes {
 public:
  explicit LiveNodes(const Graph& graph) : graph_(graph), uses_(graph) {
    needed_.resize(graph.storages.size());
    for (std::size_t i = 0; i < graph.storages.size(); ++i) {
      needed_[i] = graph.storages[i].kind != Storage::Kind::kComputed;
    }
    for (const auto& output : graph.outputs) {
      if (output) needed_[Graph::index(graph.storage_of(*output))] = true;
    }
  }

  std::vector<bool> dead() {
    std::vector<bool> dead(graph_.nodes.size());
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      dead[i] = !is_needed(static_cast<NodeId>(i));
      if (dead[i]) continue;
      for (const ValueId value : values_read(graph_.nodes[i])) need(value) = true;
    }
    return dead;
  }

 private:
  std::vector<bool>::reference need(ValueId value) {
    return needed_[Graph::index(graph_.storage_of(value))];
  }

  bool is_needed(NodeId id) {
    const Node& node = graph_.nodes[Graph::index(id)];
    const auto makes = [&](ValueId value) {
      return uses_.of_value(value).maker == id && need(value);
    };
    const auto changes = [&](ValueId value) -> bool { return need(value); };
    return node.random || std::ranges::any_of(node.writes, changes) ||
           std::ranges::any_of(values_made(node), makes);
  }

  const Graph& graph_;
  Uses uses_;
  std::vector<bool> needed_{};
};

}  // namespace

void remove_dead_work(Graph& graph) { remove_nodes(graph, LiveNodes(graph).dead()); }

}  // namespace muster::compiler
