#include <algorithm>
#include <optional>
#include <vector>

#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

bool is_copy(const Node& node) { return is(node, "aten::_to_copy") || is(node, "aten::clone"); }

// Every value of the one is a value of the other.
bool holds_all_of(at::ScalarType wide, at::ScalarType narrow) {
  if (wide == narrow) return true;
  const bool narrow_is_short = is_short_float(narrow);
  return (wide == at::kFloat && narrow_is_short) ||
         (wide == at::kDouble && (narrow_is_short || narrow == at::kFloat));
}

/// Sees through copies, as far as what it finds never changes.
class Copies {
 public:
  explicit Copies(const Graph& graph) : graph_(graph), uses_(graph) {}

  /// Value that a node copies, where nothing changes it behind the node.
  std::optional<ValueId> source(const Node& node) const {
    if (!is_copy(node)) return std::nullopt;
    const auto from = tensor_at(node, 0);
    if (!from) return std::nullopt;
    const auto& writers = uses_.of_value(*from).writers;
    const bool settled = writers.empty() || &graph_.nodes[Graph::index(writers.back())] < &node;
    return settled ? from : std::nullopt;
  }

  /// The value that was there before this copy, and has the same bits, or nothing.
  std::optional<ValueId> original(ValueId copied, const Node& node) const {
    std::optional<ValueId> from = source(node);
    while (from) {
      if (graph_.geometry(*from) == graph_.geometry(copied)) return from;
      const Node* const maker = uses_.maker(*from);
      const auto wide = graph_.geometry(*from).type;
      if (maker == nullptr || tensor_result(*maker) != from) return std::nullopt;
      const auto before = source(*maker);
      if (!before || !holds_all_of(wide, graph_.geometry(*before).type)) return std::nullopt;
      from = before;
    }
    return std::nullopt;
  }

  std::optional<ValueId> tensor_result(const Node& node) const {
    return node.results.size() == 1 ? node.results[0].value : std::nullopt;
  }

  const Uses& uses() const { return uses_; }

 private:
  const Graph& graph_;
  Uses uses_;
};

// Outputs of a step keep memory of their own.
bool can_be_replaced(const Graph& graph, const Uses& uses, ValueId copied) {
  return uses.is_pure_value(copied) && !uses.of_value(copied).is_output &&
         graph.geometry(copied).offset == 0;
}

bool remove_one_copy(Graph& graph) {
  const Copies copies(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto copied = copies.tensor_result(graph.nodes[i]);
    if (!copied || !can_be_replaced(graph, copies.uses(), *copied)) continue;
    const auto original = copies.original(*copied, graph.nodes[i]);
    if (!original || graph.geometry(*original).offset != 0) continue;
    const StorageId gone = graph.storage_of(*copied);
    rename_storage(graph, gone, graph.storage_of(*original), static_cast<NodeId>(i) + 1);
    std::vector<bool> dead(graph.nodes.size(), false);
    dead[i] = true;
    remove_nodes(graph, dead);
    return true;
  }
  return false;
}

// The same elements of what a cast read, where its result lies as that does.
std::optional<ValueId> before_cast(Graph& graph, const Copies& copies, ValueId cast) {
  const Node* const maker = copies.uses().maker(cast);
  if (maker == nullptr || !copies.tensor_result(*maker)) return std::nullopt;
  const auto from = copies.source(*maker);
  if (!from) return std::nullopt;
  const Geometry& whole = graph.geometry(*copies.tensor_result(*maker));
  const Geometry& before = graph.geometry(*from);
  if (before.sizes != whole.sizes || before.strides != whole.strides ||
      before.device != whole.device || !whole.is_dense()) {
    return std::nullopt;
  }
  Geometry part = graph.geometry(cast);
  part.type = before.type;
  part.offset += before.offset - whole.offset;
  return graph.value(graph.storage_of(*from), part);
}

// copy_(place, cast(x)) casts x itself.
void join_with_copies(Graph& graph) {
  const Copies copies(graph);
  for (Node& node : graph.nodes) {
    if (!is(node, "aten::copy_")) continue;
    const auto cast = tensor_at(node, 1);
    const auto place = tensor_at(node, 0);
    if (!cast || !place || graph.geometry(*cast).type != graph.geometry(*place).type) continue;
    if (const auto before = before_cast(graph, copies, *cast)) {
      node.arguments[1] = tensor(*before);
    }
  }
}

}  // namespace

void remove_casts(Graph& graph) {
  while (remove_one_copy(graph)) {
  }
  join_with_copies(graph);
  remove_dead_work(graph);
}

}  // namespace muster::compiler
