#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

/// Writes after a zero_() of external memory.
class ZeroedMemory {
 public:
  ZeroedMemory(const Graph& graph, NodeId zero)
      : graph_(graph),
        zero_(zero),
        storage_(graph.storage_of(graph.nodes[Graph::index(zero)].writes[0])),
        type_(graph.geometry(graph.nodes[Graph::index(zero)].writes[0]).type) {}

  /// Nodes that add to what is still zero.
  std::vector<NodeId> first_sums() {
    std::vector<NodeId> sums;
    for (std::size_t i = Graph::index(zero_) + 1; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!touches(node)) continue;
      const auto place = added_to(node);
      if (place && is_untouched(*place)) {
        sums.push_back(static_cast<NodeId>(i));
        written_.push_back(extent_of(graph_.geometry(*place)));
      }
      note(node);
    }
    return sums;
  }

  /// Whether these sums, once they are copies, leave nothing but padding of what was zeroed.
  bool covers_all(std::int64_t padding) const {
    if (padding <= 0) return false;
    std::vector<Extent> parts = written_;
    std::ranges::sort(parts, {}, &Extent::first);
    const Extent all = extent_of(graph_.geometry(graph_.nodes[Graph::index(zero_)].writes[0]));
    std::int64_t next = all.first;
    for (const Extent& part : parts) {
      if (part.first - next >= padding) return false;
      next = part.last;
    }
    return all.last - next < padding;
  }

 private:
  bool is_here(ValueId value) const { return graph_.storage_of(value) == storage_; }

  bool touches(const Node& node) const {
    return std::ranges::any_of(values_read(node), [&](ValueId v) { return is_here(v); });
  }

  // The place, where the node adds a tensor to a dense part of the memory and does nothing else.
  std::optional<ValueId> added_to(const Node& node) const {
    if (!is(node, "aten::add_", "Tensor") || number_at(node, 2) != 1.0) return std::nullopt;
    const auto place = tensor_at(node, 0);
    const auto added = tensor_at(node, 1);
    if (!place || !added || !is_here(*place) || is_here(*added)) return std::nullopt;
    const Geometry& geometry = graph_.geometry(*place);
    const bool plain = geometry.is_dense() && geometry.type == type_ &&
                       graph_.geometry(*added).device == geometry.device;
    return plain ? place : std::nullopt;
  }

  bool is_untouched(ValueId place) const {
    const Extent extent = extent_of(graph_.geometry(place));
    return std::ranges::none_of(touched_,
                                [&](const Extent& other) { return extent.overlaps(other); });
  }

  void note(const Node& node) {
    for (const ValueId value : values_read(node)) {
      if (is_here(value)) touched_.push_back(extent_of(graph_.geometry(value)));
    }
  }

  const Graph& graph_;
  NodeId zero_;
  StorageId storage_;
  at::ScalarType type_;
  std::vector<Extent> touched_{};
  std::vector<Extent> written_{};
};

bool zeroes_external(const Graph& graph, const Node& node) {
  return is(node, "aten::zero_") && node.writes.size() == 1 &&
         graph.storage(graph.storage_of(node.writes[0])).kind == Storage::Kind::kExternal &&
         graph.geometry(node.writes[0]).is_dense();
}

void make_copy(Node& node) {
  const ValueId place = node.writes[0];
  const ValueId added = *tensor_at(node, 1);
  node = make_node("aten::copy_", "", {tensor(place), tensor(added), constant(false)}, place);
  node.writes = {place};
}

}  // namespace

void write_gradients(Graph& graph, const PassOptions& options) {
  std::vector<bool> dead(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!zeroes_external(graph, graph.nodes[i])) continue;
    ZeroedMemory memory(graph, static_cast<NodeId>(i));
    const std::vector<NodeId> sums = memory.first_sums();
    dead[i] = memory.covers_all(options.padding);
    for (const NodeId sum : sums) make_copy(graph.nodes[Graph::index(sum)]);
  }
  remove_nodes(graph, dead);
}

}  // namespace muster::compiler
