#include <algorithm>
#include <optional>
#include <vector>

#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

bool is_channels_last(const Geometry& geometry) {
  return geometry.sizes.size() == 4 && geometry.is_dense() && geometry.strides[1] == 1 &&
         geometry.sizes[1] > 1 && geometry.strides[3] == geometry.sizes[1];
}

// As a weight, by a convolution whose picture lies so.
bool reads_as_weight(const Graph& graph, const Node& node, ValueId value) {
  const bool backward = is(node, "aten::convolution_backward");
  if (!backward && !is(node, "aten::convolution")) return false;
  const std::size_t picture = backward ? 1 : 0;
  const auto read = values_read(node);
  return tensor_at(node, picture + 1) == value && std::ranges::count(read, value) == 1 &&
         is_channels_last(graph.geometry(*tensor_at(node, picture)));
}

// The result of a cast that convolutions alone read.
std::optional<ValueId> weight_of(const Graph& graph, const Uses& uses, const Node& node) {
  if (!is(node, "aten::_to_copy") || !node.results[0].value) return std::nullopt;
  const ValueId value = *node.results[0].value;
  const Geometry& geometry = graph.geometry(value);
  if (!uses.is_pure_value(value) || uses.of_value(value).is_output || geometry.sizes.size() != 4 ||
      !geometry.is_contiguous()) {
    return std::nullopt;
  }
  const bool fits = std::ranges::all_of(uses.of_value(value).readers, [&](NodeId reader) {
    return reads_as_weight(graph, graph.nodes[Graph::index(reader)], value);
  });
  return fits ? std::optional(value) : std::nullopt;
}

}  // namespace

void lay_out_weights(Graph& graph, bool everywhere) {
  const Uses uses(graph);
  for (const Node& node : graph.nodes) {
    const auto weight = weight_of(graph, uses, node);
    if (!weight) continue;
    Geometry& geometry = graph.values[Graph::index(*weight)].geometry;
    if (!everywhere && !geometry.device.is_cuda()) continue;
    const auto& sizes = geometry.sizes;
    geometry.strides = {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]};
  }
}

}  // namespace muster::compiler
