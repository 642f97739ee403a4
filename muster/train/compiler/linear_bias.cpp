#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

/// x @ w, then the sum with b over the last dimension, in place or not.
struct BiasSum {
  NodeId product = -1;
  NodeId sum = -1;
  ValueId bias = -1;
  /// The product as a matrix, where the sum leaves it.
  ValueId result = -1;
};

bool is_bias_of(const Geometry& bias, std::int64_t columns) {
  return bias.elements() == columns && !bias.sizes.empty() && bias.sizes.back() == columns &&
         bias.is_contiguous() && at::isFloatingType(bias.type);
}

// A contiguous tensor over the whole product, whose last dimension is the product's.
bool is_product_in_rows(const Geometry& sum, const Geometry& product) {
  return sum.is_contiguous() && product.is_contiguous() && sum.offset == product.offset &&
         sum.type == product.type && sum.elements() == product.elements() && !sum.sizes.empty() &&
         sum.sizes.back() == product.sizes.back();
}

bool reads_unchanged(const Graph& graph, const Uses& uses, NodeId product, NodeId sum) {
  return std::ranges::none_of(values_read(graph.nodes[Graph::index(product)]), [&](ValueId value) {
    return uses.changes_between(graph.storage_of(value), product, sum + 1);
  });
}

// Nothing but the sum sees the product alone.
bool sum_is_first_reader(const Uses& uses, StorageId product, NodeId sum, bool in_place) {
  const Uses::OfStorage& of = uses.of(product);
  if (of.readers.empty() || of.readers.front() != sum) return false;
  if (in_place) return of.writers.front() == sum;
  return of.writers.empty() && uses.is_read_only_by(product, sum);
}

std::optional<BiasSum> bias_sum(Graph& graph, const Uses& uses, NodeId sum) {
  const Node& node = graph.nodes[Graph::index(sum)];
  const bool in_place = is(node, "aten::add_", "Tensor");
  if (!in_place && !is(node, "aten::add", "Tensor")) return std::nullopt;
  const auto left = tensor_at(node, 0);
  const auto bias = tensor_at(node, 1);
  if (!left || !bias || number_at(node, 2) != 1.0) return std::nullopt;
  const StorageId storage = graph.storage_of(*left);
  const NodeId product = uses.of(storage).maker;
  if (product < 0 || !is(graph.nodes[Graph::index(product)], "aten::mm")) return std::nullopt;
  const ValueId made = *graph.nodes[Graph::index(product)].results[0].value;
  const Geometry matrix = graph.geometry(made);
  const ValueId after = in_place ? *left : *node.results[0].value;
  if (!is_product_in_rows(graph.geometry(*left), matrix) ||
      !is_product_in_rows(graph.geometry(after), matrix) ||
      !is_bias_of(graph.geometry(*bias), matrix.sizes.back()) ||
      !sum_is_first_reader(uses, storage, sum, in_place) ||
      !reads_unchanged(graph, uses, product, sum)) {
    return std::nullopt;
  }
  return BiasSum{product, sum, *bias, graph.value(graph.storage_of(after), matrix)};
}

// In the product's type, as a vector.
ValueId add_bias(Graph& graph, const BiasSum& found, std::vector<Node>& nodes) {
  const Geometry matrix = graph.geometry(found.result);
  Geometry vector =
      contiguous_geometry(graph.geometry(found.bias).type, matrix.device, {matrix.sizes.back()});
  vector.offset = graph.geometry(found.bias).offset;
  const ValueId bias = graph.value(graph.storage_of(found.bias), vector);
  if (vector.type == matrix.type) return bias;
  const ValueId cast =
      graph.new_value(contiguous_geometry(matrix.type, matrix.device, {matrix.sizes.back()}));
  nodes.push_back(
      make_node("aten::_to_copy", "",
                {tensor(bias), constant(static_cast<std::int64_t>(matrix.type)), constant({}),
                 constant({}), constant({}), constant(false), constant({})},
                cast));
  return cast;
}

std::vector<Node> product_with_bias(Graph& graph, const BiasSum& found) {
  std::vector<Node> nodes;
  const ValueId bias = add_bias(graph, found, nodes);
  const Node product = graph.nodes[Graph::index(found.product)];
  nodes.push_back(make_node("aten::addmm", "",
                            {tensor(bias), product.arguments[0], product.arguments[1],
                             constant(at::Scalar(1)), constant(at::Scalar(1))},
                            found.result));
  return nodes;
}

}  // namespace

void join_bias(Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto found = bias_sum(graph, Uses(graph), static_cast<NodeId>(i));
    if (!found) continue;
    std::vector<Node> nodes = product_with_bias(graph, *found);
    const auto sum = graph.nodes.begin() + static_cast<std::ptrdiff_t>(i);
    const auto at_sum = graph.nodes.erase(sum);
    graph.nodes.insert(at_sum, nodes.begin(), nodes.end());
    graph.nodes.erase(graph.nodes.begin() + found->product);
    i = Graph::index(found->product);
  }
}

}  // namespace muster::compiler
