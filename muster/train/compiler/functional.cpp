#include <algorithm>
#include <string>
#include <utility>

#include "muster/train/compiler/operations.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

// "aten::relu" of "aten::relu_", where both take the same.
std::optional<c10::OperatorHandle> functional_of(const Node& node) {
  if (!node.operation) return std::nullopt;
  const auto& name = node.operation->schema().operator_name();
  if (!name.name.ends_with("_")) return std::nullopt;
  auto found = find_if_there(name.name.substr(0, name.name.size() - 1), name.overload_name);
  if (!found || found->schema().returns().size() != 1) return std::nullopt;
  const auto& own = node.operation->schema().arguments();
  const bool same = std::ranges::equal(
      own, found->schema().arguments(), [](const c10::Argument& one, const c10::Argument& other) {
        return one.name() == other.name() && *one.type() == *other.type();
      });
  return same ? found : std::nullopt;
}

// The result is then laid out as the tensor that would have been changed.
bool others_are_alike(const Graph& graph, const Node& node, const Geometry& changed) {
  return std::ranges::all_of(values_read(node), [&](ValueId value) {
    const Geometry& other = graph.geometry(value);
    if (other.type != changed.type || other.device != changed.device) return false;
    return other.sizes != changed.sizes || other.strides == changed.strides;
  });
}

bool can_be_functional(const Graph& graph, const Uses& uses, const Node& node) {
  if (node.writes.size() != 1 || node.random) return false;
  const ValueId changed = node.writes[0];
  return tensor_at(node, 0) == changed && is_whole(graph, uses, changed) &&
         others_are_alike(graph, node, graph.geometry(changed));
}

}  // namespace

void make_functional(Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto functional = functional_of(graph.nodes[i]);
    if (!functional || !can_be_functional(graph, Uses(graph), graph.nodes[i])) continue;
    const ValueId changed = graph.nodes[i].writes[0];
    const StorageId before = graph.storage_of(changed);
    const ValueId made = graph.new_value(Geometry(graph.geometry(changed)));
    Node& node = graph.nodes[i];
    node.operation = functional;
    node.writes.clear();
    node.results = {{.place = 0, .value = made}};
    rename_storage(graph, before, graph.storage_of(made), static_cast<NodeId>(i) + 1);
  }
}

}  // namespace muster::compiler
