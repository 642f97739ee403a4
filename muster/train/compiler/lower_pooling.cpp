#include <algorithm>
#include <optional>
#include <vector>

#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/pool_kernel.h"
#include "muster/train/compiler/program_builder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

bool has_channels_innermost(const Geometry& geometry) {
  return geometry.sizes.size() == 4 && geometry.is_dense() && is_for_programs(geometry) &&
         geometry.type != at::kBool && geometry.offset == 0 && geometry.sizes[1] > 1 &&
         geometry.strides[1] == 1 && geometry.strides[3] == geometry.sizes[1] &&
         geometry.strides[2] == geometry.sizes[1] * geometry.sizes[3];
}

// The same number for both dimensions; another one where it is not given.
std::optional<std::int64_t> one_number(const Node& node, std::size_t place,
                                       std::int64_t otherwise) {
  if (!node.arguments[place].constant.isIntList()) return std::nullopt;
  const auto given = node.arguments[place].constant.toIntVector();
  if (given.empty()) return otherwise;
  const bool same = std::ranges::all_of(given, [&](std::int64_t one) { return one == given[0]; });
  return same ? std::optional<std::int64_t>(given[0]) : std::nullopt;
}

std::optional<Pooling> pooling_of(const Node& node, const Geometry& picture, const Geometry& made) {
  if (!has_channels_innermost(picture) || !has_channels_innermost(made)) return std::nullopt;
  const auto size = one_number(node, 1, 0);
  if (!size || *size < 1 || *size > 15) return std::nullopt;
  const auto stride = one_number(node, 2, *size);
  const auto padding = one_number(node, 3, 0);
  if (!stride || !padding || one_number(node, 4, 1) != 1) return std::nullopt;
  return Pooling{.type = picture.type,
                 .batch = picture.sizes[0],
                 .channels = picture.sizes[1],
                 .height = picture.sizes[2],
                 .width = picture.sizes[3],
                 .rows = made.sizes[2],
                 .columns = made.sizes[3],
                 .size = *size,
                 .stride = *stride,
                 .padding = *padding};
}

bool same_layout(const Geometry& one, const Geometry& other) {
  return one.type == other.type && one.sizes == other.sizes && one.strides == other.strides &&
         one.offset == other.offset;
}

Node kernel_node(const Pooling& pooling, bool backward, const std::vector<ValueId>& inputs,
                 const std::vector<ValueId>& results) {
  Node node;
  for (const ValueId value : inputs) node.arguments.push_back(tensor(value));
  for (std::size_t i = 0; i < results.size(); ++i) {
    node.results.push_back({.place = i, .value = results[i]});
  }
  node.kernel = std::make_shared<PoolKernel>(pooling, backward);
  return node;
}

// Where nothing but the way back reads the indices.
void lower_one(Graph& graph, const Uses& uses, NodeId id) {
  const Node forward = graph.nodes[Graph::index(id)];
  if (!is(forward, "aten::max_pool2d_with_indices")) return;
  const ValueId picture = *tensor_at(forward, 0);
  const ValueId maxima = *forward.results[0].value;
  const ValueId indices = *forward.results[1].value;
  const Uses::OfStorage& of = uses.of_value(indices);
  if (of.readers.size() != 1 || of.is_output || !uses.is_pure_value(indices)) return;
  const Node backward = graph.nodes[Graph::index(of.readers[0])];
  if (!is(backward, "aten::max_pool2d_with_indices_backward")) return;
  const ValueId gradient = *tensor_at(backward, 0);
  const ValueId result = *backward.results[0].value;
  const auto pooling = pooling_of(forward, graph.geometry(picture), graph.geometry(maxima));
  if (!pooling || !same_layout(graph.geometry(gradient), graph.geometry(maxima)) ||
      !same_layout(graph.geometry(result), graph.geometry(picture))) {
    return;
  }
  Geometry bytes = graph.geometry(maxima);
  bytes.type = at::kByte;
  const ValueId places = graph.new_value(bytes);
  graph.nodes[Graph::index(id)] = kernel_node(*pooling, false, {picture}, {maxima, places});
  graph.nodes[Graph::index(of.readers[0])] =
      kernel_node(*pooling, true, {gradient, places}, {result});
}

}  // namespace

void lower_pooling(Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].operation) lower_one(graph, Uses(graph), static_cast<NodeId>(i));
  }
}

}  // namespace muster::compiler
