#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/program_builder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

/// Tensors that are put one after another, and where each is in the result.
struct Concatenation {
  ValueId whole = -1;
  std::vector<ValueId> parts{};
  std::vector<Geometry> places{};
};

std::optional<Concatenation> concatenation(const Graph& graph, const Uses& uses, NodeId id) {
  const Node& node = graph.nodes[Graph::index(id)];
  if (!is(node, "aten::cat") || node.arguments[0].kind != Argument::Kind::kTensorList) {
    return std::nullopt;
  }
  Concatenation found{.whole = *node.results[0].value};
  const Geometry whole = graph.geometry(found.whole);
  const auto rank = static_cast<std::int64_t>(whole.sizes.size());
  const auto given = static_cast<std::int64_t>(*number_at(node, 1));
  const auto dimension = static_cast<std::size_t>(given < 0 ? given + rank : given);
  if (!uses.is_pure_value(found.whole) || !whole.is_dense() || whole.offset != 0 ||
      !is_for_programs(whole)) {
    return std::nullopt;
  }
  std::int64_t first = 0;
  for (const auto& part : node.arguments[0].tensors) {
    if (!part) return std::nullopt;
    const Geometry& geometry = graph.geometry(*part);
    const bool fits = is_for_programs(geometry) && geometry.type == whole.type &&
                      geometry.device == whole.device &&
                      geometry.sizes.size() == whole.sizes.size();
    if (!fits) return std::nullopt;
    Geometry place = whole;
    place.sizes[dimension] = geometry.sizes[dimension];
    place.offset = first * whole.strides[dimension];
    first += geometry.sizes[dimension];
    found.parts.push_back(*part);
    found.places.push_back(place);
  }
  return found;
}

// After its maker, where nothing changes it; in front of the concatenation otherwise.
NodeId place_of_copy(const Uses& uses, ValueId part, NodeId concatenation) {
  if (!uses.is_pure_value(part)) return concatenation;
  return uses.of_value(part).maker + 1;
}

void write_parts(Graph& graph, const Uses& uses, NodeId id, const Concatenation& found) {
  std::vector<std::pair<NodeId, Node>> copies;
  NodeId first = id;
  for (std::size_t i = 0; i < found.parts.size(); ++i) {
    const ValueId place = graph.value(graph.storage_of(found.whole), found.places[i]);
    Node copy = make_node("aten::copy_", "",
                          {tensor(place), tensor(found.parts[i]), constant(false)}, place);
    copy.writes = {place};
    const NodeId at = place_of_copy(uses, found.parts[i], id);
    copies.emplace_back(at, std::move(copy));
    first = std::min(first, at);
  }
  const Geometry& geometry = graph.geometry(found.whole);
  Node memory = make_node("aten::empty_strided", "",
                          {constant(geometry.sizes), constant(geometry.strides),
                           constant(static_cast<std::int64_t>(geometry.type)), constant({}),
                           constant(geometry.device), constant({})},
                          found.whole);
  graph.nodes.erase(graph.nodes.begin() + id);
  std::ranges::stable_sort(copies, std::ranges::greater{},
                           [](const auto& copy) { return copy.first; });
  for (auto& [at, copy] : copies) graph.nodes.insert(graph.nodes.begin() + at, std::move(copy));
  graph.nodes.insert(graph.nodes.begin() + first, std::move(memory));
}

}  // namespace

void write_concatenations(Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Uses uses(graph);
    const auto id = static_cast<NodeId>(i);
    if (const auto found = concatenation(graph, uses, id)) write_parts(graph, uses, id, *found);
  }
}

}  // namespace muster::compiler
