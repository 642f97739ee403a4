#include "muster/train/compiler/uses.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <utility>

#include "muster/train/compiler/operations.h"

namespace muster::compiler {
namespace {

void add_once(std::vector<NodeId>& nodes, NodeId node) {
  if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
}

}  // namespace

Uses::Uses(const Graph& graph) : graph_(graph), storages_(graph.storages.size()) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    const auto uses_of = [&](ValueId value) -> OfStorage& {
      return storages_[Graph::index(graph.storage_of(value))];
    };
    for (const ValueId value : values_read(graph.nodes[i])) add_once(uses_of(value).readers, node);
    for (const ValueId value : graph.nodes[i].writes) add_once(uses_of(value).writers, node);
    for (const ValueId value : values_made(graph.nodes[i])) {
      const bool computed = graph.storage(graph.storage_of(value)).kind == Storage::Kind::kComputed;
      if (computed && uses_of(value).maker < 0) uses_of(value).maker = node;
    }
  }
  for (const auto& output : graph.outputs) {
    if (output) storages_[Graph::index(graph.storage_of(*output))].is_output = true;
  }
}

bool Uses::is_pure(StorageId storage) const {
  return of(storage).maker >= 0 && of(storage).writers.empty();
}

bool Uses::is_constant(StorageId storage) const { return of(storage).writers.empty(); }

bool Uses::changes_between(StorageId storage, NodeId first, NodeId last) const {
  return std::ranges::any_of(of(storage).writers,
                             [&](NodeId writer) { return writer > first && writer < last; });
}

bool Uses::is_read_only_by(StorageId storage, NodeId reader) const {
  return !of(storage).is_output &&
         std::ranges::all_of(of(storage).readers, [&](NodeId other) { return other == reader; });
}

const Node* Uses::maker(ValueId value) const {
  const StorageId storage = graph_.storage_of(value);
  return is_pure(storage) ? &graph_.nodes[Graph::index(of(storage).maker)] : nullptr;
}

bool is(const Node& node, std::string_view name, std::string_view overload) {
  if (!node.operation) return false;
  const auto& own = node.operation->schema().operator_name();
  return own.name == name && own.overload_name == overload;
}

std::optional<ValueId> tensor_at(const Node& node, std::size_t place) {
  if (place >= node.arguments.size()) return std::nullopt;
  const Argument& argument = node.arguments[place];
  return argument.kind == Argument::Kind::kTensor ? argument.tensors[0] : std::nullopt;
}

std::optional<double> number_at(const Node& node, std::size_t place) {
  if (place >= node.arguments.size()) return std::nullopt;
  const Argument& argument = node.arguments[place];
  if (argument.kind != Argument::Kind::kConstant) return std::nullopt;
  if (argument.constant.isTensor()) {
    const at::Tensor& number = argument.constant.toTensor();
    return number.defined() ? std::optional(number.item<double>()) : std::nullopt;
  }
  if (argument.constant.isScalar()) return argument.constant.toScalar().to<double>();
  return std::nullopt;
}

bool same_constant(const c10::IValue& left, const c10::IValue& right) {
  if (left.tagKind() != right.tagKind()) return false;
  if (left.isTensor()) {
    const at::Tensor& a = left.toTensor();
    const at::Tensor& b = right.toTensor();
    if (!a.defined() || !b.defined()) return a.defined() == b.defined();
    return a.scalar_type() == b.scalar_type() && a.item<double>() == b.item<double>();
  }
  if (left.isInt() || left.isDouble() || left.isBool() || left.isNone() || left.isIntList() ||
      left.isBoolList() || left.isDoubleList() || left.isString() || left.isDevice()) {
    return left == right;
  }
  return false;
}

Argument constant(c10::IValue value) { return {.constant = std::move(value)}; }

Argument tensor(ValueId value) { return {.kind = Argument::Kind::kTensor, .tensors = {value}}; }

Node make_node(const char* name, const char* overload, std::vector<Argument> arguments,
               ValueId result) {
  return {.operation = find_operation(name, overload),
          .arguments = std::move(arguments),
          .results = {{.place = 0, .value = result}}};
}

void rename_storage(Graph& graph, StorageId from, StorageId to, NodeId first) {
  const auto rename = [&](ValueId& value) {
    if (graph.storage_of(value) != from) return;
    const Geometry geometry = graph.geometry(value);
    value = graph.value(to, geometry);
  };
  for (std::size_t i = Graph::index(first); i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    for (Argument& argument : node.arguments) {
      for (auto& tensor : argument.tensors) {
        if (tensor) rename(*tensor);
      }
    }
    for (Result& result : node.results) {
      if (result.value) rename(*result.value);
    }
    for (ValueId& written : node.writes) rename(written);
  }
  for (auto& output : graph.outputs) {
    if (output) rename(*output);
  }
}

void remove_nodes(Graph& graph, const std::vector<bool>& dead) {
  std::vector<Node> kept;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!dead[i]) kept.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(kept);
}

Extent extent_of(const Geometry& geometry) {
  Extent extent{geometry.offset, geometry.offset + (geometry.elements() > 0 ? 1 : 0)};
  for (std::size_t d = 0; d < geometry.sizes.size() && geometry.elements() > 0; ++d) {
    extent.last += (geometry.sizes[d] - 1) * geometry.strides[d];
  }
  return extent;
}

namespace {

Footprint::Part part_of(const Graph& graph, ValueId value) {
  const Geometry& geometry = graph.geometry(value);
  return {graph.storage_of(value), extent_of(geometry), c10::elementSize(geometry.type)};
}

// Places of types of other sizes are counted otherwise.
bool may_share(const Footprint::Part& one, const Footprint::Part& other) {
  return one.storage == other.storage &&
         (one.element_size != other.element_size || one.extent.overlaps(other.extent));
}

bool any_shared(const std::vector<Footprint::Part>& some,
                const std::vector<Footprint::Part>& more) {
  return std::ranges::any_of(some, [&](const Footprint::Part& one) {
    return std::ranges::any_of(more,
                               [&](const Footprint::Part& other) { return may_share(one, other); });
  });
}

}  // namespace

bool may_share_memory(const Graph& graph, ValueId one, ValueId other) {
  return may_share(part_of(graph, one), part_of(graph, other));
}

Footprint footprint_of(const Graph& graph, const Node& node) {
  Footprint all{.random = node.random};
  for (const ValueId value : values_read(node)) all.read.push_back(part_of(graph, value));
  for (const ValueId value : values_made(node)) all.left.push_back(part_of(graph, value));
  for (const ValueId value : node.writes) all.left.push_back(part_of(graph, value));
  return all;
}

bool are_independent(const Footprint& one, const Footprint& other) {
  if (one.random && other.random) return false;
  return !any_shared(one.left, other.read) && !any_shared(one.left, other.left) &&
         !any_shared(one.read, other.left);
}

bool is_whole(const Graph& graph, const Uses& uses, ValueId value) {
  const NodeId maker = uses.of_value(value).maker;
  const Geometry& geometry = graph.geometry(value);
  if (maker < 0 || geometry.offset != 0 || !geometry.is_dense()) return false;
  for (const ValueId made : values_made(graph.nodes[Graph::index(maker)])) {
    const Geometry& first = graph.geometry(made);
    if (graph.storage_of(made) == graph.storage_of(value)) {
      return first.offset == 0 && first.is_dense() && first.type == geometry.type &&
             first.elements() == geometry.elements();
    }
  }
  return false;
}

}  // namespace muster::compiler
