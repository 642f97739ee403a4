#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

bool same_arguments(const Node& left, const Node& right) {
  return std::ranges::equal(
      left.arguments, right.arguments, [](const Argument& one, const Argument& other) {
        if (one.kind != other.kind || one.tensors != other.tensors) return false;
        return one.kind != Argument::Kind::kConstant || same_constant(one.constant, other.constant);
      });
}

bool can_be_shared(const Graph& graph, const Uses& uses, NodeId id) {
  const Node& node = graph.nodes[Graph::index(id)];
  if (!node.operation || node.random || !node.writes.empty()) return false;
  const auto made = values_made(node);
  return !made.empty() && std::ranges::all_of(made, [&](ValueId value) {
    return uses.is_pure_value(value) && uses.of_value(value).maker == id;
  });
}

bool reads_the_same(const Graph& graph, const Uses& uses, NodeId first, NodeId second) {
  return std::ranges::none_of(values_read(graph.nodes[Graph::index(first)]), [&](ValueId value) {
    return uses.changes_between(graph.storage_of(value), first, second);
  });
}

bool same_results(const Graph& graph, const Node& left, const Node& right) {
  return std::ranges::equal(
      left.results, right.results, [&](const Result& one, const Result& other) {
        if (one.value.has_value() != other.value.has_value()) return false;
        return one.place == other.place && one.element == other.element &&
               (!one.value || graph.geometry(*one.value) == graph.geometry(*other.value));
      });
}

}  // namespace

void share_subexpressions(Graph& graph) {
  std::map<std::string, std::vector<NodeId>> known;
  const Uses uses(graph);
  std::vector<bool> dead(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (!can_be_shared(graph, uses, id)) continue;
    auto& same_name = known[graph.nodes[i].name()];
    const auto found = std::ranges::find_if(same_name, [&](NodeId first) {
      const Node& other = graph.nodes[Graph::index(first)];
      return same_arguments(other, graph.nodes[i]) && same_results(graph, other, graph.nodes[i]) &&
             reads_the_same(graph, uses, first, id);
    });
    if (found == same_name.end()) {
      same_name.push_back(id);
      continue;
    }
    const auto kept = values_made(graph.nodes[Graph::index(*found)]);
    const auto gone = values_made(graph.nodes[i]);
    dead[i] = true;
    for (std::size_t r = 0; r < kept.size(); ++r) {
      rename_storage(graph, graph.storage_of(gone[r]), graph.storage_of(kept[r]), id + 1);
    }
  }
  remove_nodes(graph, dead);
}

}  // namespace muster::compiler
