#include <optional>
#include <vector>

#include "muster/train/compiler/operations.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

/// copy_(place, product): a product in a short type that nothing but its copy into float32 reads.
struct WrittenProduct {
  NodeId product = -1;
  ValueId place = -1;
};

std::optional<WrittenProduct> written_product(Graph& graph, const Uses& uses, NodeId copy) {
  const Node& node = graph.nodes[Graph::index(copy)];
  if (!is(node, "aten::copy_")) return std::nullopt;
  const auto to = tensor_at(node, 0);
  const auto from = tensor_at(node, 1);
  if (!to || !from || !uses.is_pure_value(*from)) return std::nullopt;
  const StorageId storage = graph.storage_of(*from);
  const NodeId product = uses.of(storage).maker;
  if (!is(graph.nodes[Graph::index(product)], "aten::mm") || !uses.is_read_only_by(storage, copy)) {
    return std::nullopt;
  }
  const Geometry made = graph.geometry(*graph.nodes[Graph::index(product)].results[0].value);
  const Geometry source = graph.geometry(*from);
  const Geometry target = graph.geometry(*to);
  const bool whole = source.elements() == made.elements() && source.is_dense() &&
                     source.offset == 0 && made.is_contiguous() && made.offset == 0;
  const bool alike = target.sizes == source.sizes && target.strides == source.strides;
  if (!whole || !alike || target.type != at::kFloat || !is_short_float(made.type))
    return std::nullopt;
  for (const ValueId read : values_read(graph.nodes[Graph::index(product)])) {
    if (uses.changes_between(graph.storage_of(read), product, copy)) return std::nullopt;
  }
  Geometry place = made;
  place.type = at::kFloat;
  place.offset = target.offset;
  return WrittenProduct{product, graph.value(graph.storage_of(*to), place)};
}

}  // namespace

void write_products(Graph& graph, bool everywhere) {
  if (!find_if_there("aten::mm", "dtype_out")) return;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Uses uses(graph);
    const auto found = written_product(graph, uses, static_cast<NodeId>(i));
    if (!found || (!everywhere && !graph.geometry(found->place).device.is_cuda())) continue;
    const Node product = graph.nodes[Graph::index(found->product)];
    Node node = make_node("aten::mm", "dtype_out",
                          {product.arguments[0], product.arguments[1],
                           constant(static_cast<std::int64_t>(at::kFloat)), tensor(found->place)},
                          found->place);
    node.writes = {found->place};
    graph.nodes[i] = std::move(node);
    graph.nodes.erase(graph.nodes.begin() + found->product);
    --i;
  }
}

}  // namespace muster::compiler
