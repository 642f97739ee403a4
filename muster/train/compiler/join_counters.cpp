#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "muster/train/compiler/counter_kernel.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

/// Threads of one block.
constexpr std::size_t kMostCounters = 256;

// The whole number that the node adds to an int64 of its own that nothing else touches, as batch
// norm counts its steps.
std::optional<std::int64_t> counted(const Graph& graph, const Uses& uses, NodeId id) {
  const Node& node = graph.nodes[Graph::index(id)];
  const auto counter = tensor_at(node, 0);
  const auto added = number_at(node, 1);
  if (!(is(node, "aten::add_", "Tensor") || is(node, "aten::add_", "Scalar")) || !counter ||
      !added || number_at(node, 2) != 1.0 || std::floor(*added) != *added) {
    return std::nullopt;
  }
  const Geometry& geometry = graph.geometry(*counter);
  const Uses::OfStorage& of = uses.of_value(*counter);
  const bool alone = of.readers.size() == 1 && of.writers.size() == 1 && !of.is_output;
  const bool is_counter = geometry.type == at::kLong && geometry.elements() == 1 && alone;
  return is_counter ? std::optional(static_cast<std::int64_t>(*added)) : std::nullopt;
}

}  // namespace

void join_counters(Graph& graph) {
  const Uses uses(graph);
  std::vector<std::size_t> places;
  std::vector<std::int64_t> added;
  Node joint;
  for (std::size_t i = 0; i < graph.nodes.size() && places.size() < kMostCounters; ++i) {
    const auto number = counted(graph, uses, static_cast<NodeId>(i));
    if (!number) continue;
    const ValueId counter = *tensor_at(graph.nodes[i], 0);
    const bool same_device = joint.writes.empty() || graph.geometry(counter).device ==
                                                         graph.geometry(joint.writes[0]).device;
    if (!same_device) continue;
    places.push_back(i);
    added.push_back(*number);
    joint.arguments.push_back(tensor(counter));
    joint.writes.push_back(counter);
  }
  if (places.size() < 2) return;
  joint.kernel = std::make_shared<CounterKernel>(std::move(added));
  std::vector<bool> dead(graph.nodes.size(), false);
  for (const std::size_t place : places) dead[place] = true;
  dead[places[0]] = false;
  graph.nodes[places[0]] = std::move(joint);
  remove_nodes(graph, dead);
}

}  // namespace muster::compiler
