#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

/// One gradient, and the part of the whole that it fills: [first, last) of a dimension.
struct Slice {
  ValueId gradient = -1;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Slices of one dimension of a tensor that is zero elsewhere.
struct Slices {
  std::int64_t dimension = 0;
  bool selects = false;
  std::vector<Slice> parts{};
  /// Nodes that are not needed when the whole is written at once.
  std::vector<NodeId> nodes{};
};

std::optional<std::int64_t> integer_at(const Node& node, std::size_t place) {
  const c10::IValue& given = node.arguments[place].constant;
  return given.isInt() ? std::optional(given.toInt()) : std::nullopt;
}

std::optional<Slices> slices_of_fill(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[Graph::index(id)];
  const bool selects = is(node, "aten::select_backward");
  if (!selects && !is(node, "aten::slice_backward")) return std::nullopt;
  const auto gradient = tensor_at(node, 0);
  auto dimension = integer_at(node, 2);
  auto first = integer_at(node, 3);
  if (!gradient || !dimension || !first) return std::nullopt;
  const auto& sizes = graph.geometry(*node.results[0].value).sizes;
  if (*dimension < 0) *dimension += static_cast<std::int64_t>(sizes.size());
  const std::int64_t size = sizes[static_cast<std::size_t>(*dimension)];
  if (*first < 0) *first += size;
  auto last = selects ? std::optional(*first + 1) : integer_at(node, 4);
  if (!last || (!selects && integer_at(node, 5) != 1)) return std::nullopt;
  if (*last < 0) *last += size;
  return Slices{.dimension = *dimension,
                .selects = selects,
                .parts = {{*gradient, *first, std::min(*last, size)}},
                .nodes = {id}};
}

class SliceSums {
 public:
  explicit SliceSums(const Graph& graph) : graph_(graph), uses_(graph) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) note(static_cast<NodeId>(i));
  }

  /// The first sum that is whole, and its node.
  std::optional<std::pair<NodeId, Slices>> whole() const {
    for (const auto& [id, slices] : sums_) {
      if (slices.nodes.size() > 1 && is_whole_sum(id, slices)) return std::pair(id, slices);
    }
    return std::nullopt;
  }

 private:
  void note(NodeId id) {
    const Node& node = graph_.nodes[Graph::index(id)];
    auto slices = slices_of_fill(graph_, id);
    if (!slices && is(node, "aten::add", "Tensor") && number_at(node, 2) == 1.0) {
      slices = sum_of(id, tensor_at(node, 0), tensor_at(node, 1));
    }
    if (slices && uses_.is_pure_value(*node.results[0].value) && is_stable(*slices)) {
      sums_.emplace(id, std::move(*slices));
    }
  }

  bool is_stable(const Slices& slices) const {
    return std::ranges::all_of(slices.parts, [&](const Slice& part) {
      return uses_.is_constant(graph_.storage_of(part.gradient));
    });
  }

  const Slices* slices_at(NodeId reader, std::optional<ValueId> value) const {
    if (!value || !uses_.is_pure_value(*value)) return nullptr;
    const NodeId maker = uses_.of_value(*value).maker;
    const bool is_all = graph_.nodes[Graph::index(maker)].results[0].value == value;
    const auto found = sums_.find(maker);
    const bool only_here = uses_.is_read_only_by(graph_.storage_of(*value), reader);
    return is_all && only_here && found != sums_.end() ? &found->second : nullptr;
  }

  std::optional<Slices> sum_of(NodeId id, std::optional<ValueId> left,
                               std::optional<ValueId> right) const {
    const Slices* const one = slices_at(id, left);
    const Slices* const other = slices_at(id, right);
    if (one == nullptr || other == nullptr || one->dimension != other->dimension ||
        one->selects != other->selects ||
        graph_.geometry(*left).sizes != graph_.geometry(*right).sizes) {
      return std::nullopt;
    }
    Slices both = *one;
    both.parts.insert(both.parts.end(), other->parts.begin(), other->parts.end());
    both.nodes.insert(both.nodes.end(), other->nodes.begin(), other->nodes.end());
    both.nodes.push_back(id);
    return both;
  }

  // Each element comes from one slice.
  bool is_whole_sum(NodeId id, Slices slices) const {
    std::ranges::sort(slices.parts, {}, &Slice::first);
    std::int64_t next = 0;
    for (const Slice& part : slices.parts) {
      if (part.first != next) return false;
      next = part.last;
    }
    const Geometry& whole = graph_.geometry(*graph_.nodes[Graph::index(id)].results[0].value);
    return next == whole.sizes[static_cast<std::size_t>(slices.dimension)];
  }

  const Graph& graph_;
  Uses uses_;
  std::map<NodeId, Slices> sums_{};
};

Geometry geometry_of_part(Geometry whole, const Slices& slices, const Slice& part) {
  const auto dimension = static_cast<std::size_t>(slices.dimension);
  whole.offset += part.first * whole.strides[dimension];
  if (slices.selects) {
    whole.sizes.erase(whole.sizes.begin() + slices.dimension);
    whole.strides.erase(whole.strides.begin() + slices.dimension);
  } else {
    whole.sizes[dimension] = part.last - part.first;
  }
  return whole;
}

// Where the whole is only copied into another layout, it is written in that one.
Geometry layout_for(const Graph& graph, const Uses& uses, ValueId whole) {
  const Uses::OfStorage& of = uses.of_value(whole);
  const Geometry& as_made = graph.geometry(whole);
  if (of.readers.size() != 1 || of.is_output) return as_made;
  const Node& reader = graph.nodes[Graph::index(of.readers[0])];
  const auto read = tensor_at(reader, 0);
  if (!is(reader, "aten::clone") || !read) return as_made;
  const Geometry& view = graph.geometry(*read);
  const Geometry& copied = graph.geometry(*reader.results[0].value);
  // The view is the whole with its dimensions in another order: the copy tells their new strides.
  if (view.sizes.size() != as_made.sizes.size() || view.sizes != copied.sizes || view.offset != 0) {
    return as_made;
  }
  Geometry layout = as_made;
  for (std::size_t d = 0; d < as_made.sizes.size(); ++d) {
    const auto place = std::ranges::find(view.strides, as_made.strides[d]);
    if (place == view.strides.end() || std::ranges::count(view.strides, as_made.strides[d]) != 1) {
      return as_made;
    }
    const auto v = static_cast<std::size_t>(place - view.strides.begin());
    if (view.sizes[v] != as_made.sizes[d]) return as_made;
    layout.strides[d] = copied.strides[v];
  }
  return layout;
}

std::vector<Node> writes_of(Graph& graph, const Slices& slices, ValueId whole) {
  const Geometry geometry = graph.geometry(whole);
  std::vector<Node> nodes;
  nodes.push_back(make_node("aten::empty_strided", "",
                            {constant(geometry.sizes), constant(geometry.strides),
                             constant(static_cast<std::int64_t>(geometry.type)), constant({}),
                             constant(geometry.device), constant({})},
                            whole));
  for (const Slice& part : slices.parts) {
    const ValueId place =
        graph.value(graph.storage_of(whole), geometry_of_part(geometry, slices, part));
    Node copy = make_node("aten::copy_", "",
                          {tensor(place), tensor(part.gradient), constant(false)}, place);
    copy.writes = {place};
    nodes.push_back(std::move(copy));
  }
  return nodes;
}

// Views of the whole are those of the new layout.
void change_layout(Graph& graph, ValueId whole, const Geometry& layout) {
  const Geometry before = graph.geometry(whole);
  const StorageId storage = graph.storage_of(whole);
  for (Value& value : graph.values) {
    if (value.storage != storage) continue;
    for (std::int64_t& stride : value.geometry.strides) {
      const auto place = std::ranges::find(before.strides, stride);
      if (place == before.strides.end()) continue;  // a view that nothing reads any more
      stride = layout.strides[static_cast<std::size_t>(place - before.strides.begin())];
    }
  }
}

}  // namespace

void write_slices(Graph& graph) {
  while (const auto found = SliceSums(graph).whole()) {
    const auto& [root, slices] = *found;
    const ValueId whole = *graph.nodes[Graph::index(root)].results[0].value;
    const Geometry layout = layout_for(graph, Uses(graph), whole);
    if (layout != graph.geometry(whole)) change_layout(graph, whole, layout);
    std::vector<Node> nodes = writes_of(graph, slices, whole);
    std::vector<bool> dead(graph.nodes.size(), false);
    for (const NodeId node : slices.nodes) dead[Graph::index(node)] = true;
    dead[Graph::index(root)] = true;
    const auto behind = graph.nodes.begin() + root + 1;
    graph.nodes.insert(behind, nodes.begin(), nodes.end());
    dead.insert(dead.begin() + root + 1, nodes.size(), false);
    remove_nodes(graph, dead);
  }
}

}  // namespace muster::compiler
