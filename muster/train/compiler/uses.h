#pragma once

#include <string_view>
#include <vector>

#include "muster/train/compiler/graph.h"

namespace muster::compiler {

/// Which nodes make, change and read each storage. Valid until the graph is changed.
class Uses {
 public:
  explicit Uses(const Graph& graph);

  struct OfStorage {
    /// The first node with a result there; -1 where no node makes it.
    NodeId maker = -1;
    /// In their order; one that reads twice is there once.
    std::vector<NodeId> writers{};
    std::vector<NodeId> readers{};
    bool is_output = false;
  };
  const OfStorage& of(StorageId storage) const { return storages_[Graph::index(storage)]; }
  const OfStorage& of_value(ValueId value) const { return of(graph_.storage_of(value)); }

  /// Whether it is computed, and nothing changes it after it was made.
  bool is_pure(StorageId storage) const;
  bool is_pure_value(ValueId value) const { return is_pure(graph_.storage_of(value)); }
  /// Whether it has the same values all through the step: pure, or never changed.
  bool is_constant(StorageId storage) const;
  /// Whether a node after `first` and before `last` changes it.
  bool changes_between(StorageId storage, NodeId first, NodeId last) const;
  /// Whether this node alone reads it, and it is not returned.
  bool is_read_only_by(StorageId storage, NodeId reader) const;
  /// The node that makes a pure value as a whole; null for others.
  const Node* maker(ValueId value) const;

 private:
  const Graph& graph_;
  std::vector<OfStorage> storages_;
};

/// Whether the node is this operation: "aten::add", "Tensor".
bool is(const Node& node, std::string_view name, std::string_view overload = "");
/// Its tensor argument at this place; nothing where it is undefined or no tensor.
std::optional<ValueId> tensor_at(const Node& node, std::size_t place);
/// A number that it was given, libtorch's wrapped ones too.
std::optional<double> number_at(const Node& node, std::size_t place);
bool same_constant(const c10::IValue& left, const c10::IValue& right);

Argument constant(c10::IValue value);
Argument tensor(ValueId value);
/// A node with one result.
Node make_node(const char* name, const char* overload, std::vector<Argument> arguments,
               ValueId result);

/// From this node on, values of one storage are those of another, laid out alike.
void rename_storage(Graph& graph, StorageId from, StorageId to, NodeId first = 0);
void remove_nodes(Graph& graph, const std::vector<bool>& dead);

/// Elements [first, last) of a storage.
struct Extent {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool overlaps(const Extent& other) const { return first < other.last && other.first < last; }
};
/// From a tensor's first element to its last; one with gaps covers less than that.
Extent extent_of(const Geometry& geometry);
/// Whether an element may belong to both.
bool may_share_memory(const Graph& graph, ValueId one, ValueId other);
/// Memory that a node reads, and that it leaves changed or made.
struct Footprint {
  struct Part {
    StorageId storage = -1;
    Extent extent{};
    std::size_t element_size = 0;
  };
  std::vector<Part> read{};
  std::vector<Part> left{};
  bool random = false;
};
Footprint footprint_of(const Graph& graph, const Node& node);
/// Whether the nodes leave the same values in either order: neither makes or changes what the other
/// reads, makes or changes.
bool are_independent(const Footprint& one, const Footprint& other);

/// Whether the tensor is all of its storage: it has no offset, and its maker made as many elements.
bool is_whole(const Graph& graph, const Uses& uses, ValueId value);

}  // namespace muster::compiler
