#include <memory>
#include <optional>
#include <vector>

#include "muster/train/compiler/embedding_kernel.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/program_builder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

// The rows of the gradient as those of one or two dimensions of words.
bool take_rows(const Geometry& gradient, EmbeddingGradient& of) {
  const auto& sizes = gradient.sizes;
  const auto& strides = gradient.strides;
  if (sizes.size() < 2 || sizes.size() > 3 || strides.back() != 1) return false;
  of.inner = sizes[sizes.size() - 2];
  of.inner_stride = strides[sizes.size() - 2];
  of.outer = sizes.size() == 3 ? sizes[0] : 1;
  of.outer_stride = sizes.size() == 3 ? strides[0] : 0;
  of.columns = sizes.back();
  return of.outer * of.inner <= kMostWords;
}

std::optional<EmbeddingGradient> embedding_gradient(const Graph& graph, const Node& node) {
  if (!is(node, "aten::embedding_dense_backward") || node.arguments[4].constant.toBool()) {
    return std::nullopt;
  }
  const Geometry& gradient = graph.geometry(*tensor_at(node, 0));
  const Geometry& words = graph.geometry(*tensor_at(node, 1));
  const Geometry& table = graph.geometry(*node.results[0].value);
  EmbeddingGradient of{.from = gradient.type,
                       .words = words.type,
                       .to = table.type,
                       .padding = node.arguments[3].constant.toInt()};
  const bool fits = take_rows(gradient, of) && words.is_contiguous() &&
                    words.elements() == of.outer * of.inner && table.is_contiguous() &&
                    is_for_programs(gradient) && is_for_programs(table) && is_aligned(gradient) &&
                    (words.type == at::kLong || words.type == at::kInt);
  return fits ? std::optional(of) : std::nullopt;
}

/// The copy that alone reads the table's gradient, into memory that lies alike.
std::optional<NodeId> copy_of(const Graph& graph, const Uses& uses, NodeId id) {
  const Node& node = graph.nodes[Graph::index(id)];
  const ValueId table = *node.results[0].value;
  const Uses::OfStorage& of = uses.of_value(table);
  if (!uses.is_pure_value(table) || of.is_output || of.readers.size() != 1) return std::nullopt;
  const NodeId reader = of.readers[0];
  const Node& copy = graph.nodes[Graph::index(reader)];
  if (!is(copy, "aten::copy_") || tensor_at(copy, 1) != table) return std::nullopt;
  const Geometry& place = graph.geometry(copy.writes[0]);
  const bool alike = place.sizes == graph.geometry(table).sizes && place.is_contiguous() &&
                     is_for_programs(place) && is_aligned(place);
  bool is_unchanged = true;
  for (const ValueId read : values_read(node)) {
    is_unchanged = is_unchanged && !uses.changes_between(graph.storage_of(read), id, reader);
  }
  return alike && is_unchanged ? std::optional(reader) : std::nullopt;
}

Node kernel_node(const EmbeddingGradient& of, const Node& node) {
  Node made;
  made.arguments = {node.arguments[0], node.arguments[1]};
  made.kernel = std::make_shared<EmbeddingKernel>(of);
  return made;
}

}  // namespace

void lower_embedding(Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    auto of = embedding_gradient(graph, graph.nodes[i]);
    if (!of) continue;
    const auto copy = copy_of(graph, Uses(graph), static_cast<NodeId>(i));
    if (!copy) {
      Node made = kernel_node(*of, graph.nodes[i]);
      made.results = graph.nodes[i].results;
      graph.nodes[i] = std::move(made);
      continue;
    }
    const ValueId place = graph.nodes[Graph::index(*copy)].writes[0];
    of->to = graph.geometry(place).type;
    Node made = kernel_node(*of, graph.nodes[i]);
    made.arguments.push_back(tensor(place));
    made.writes = {place};
    graph.nodes[Graph::index(*copy)] = std::move(made);
    graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace muster::compiler
