#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// A training step as a graph of ATen operations.
namespace muster::compiler {

/// Places in Graph::storages, Graph::values and Graph::nodes.
using StorageId = std::int32_t;
using ValueId = std::int32_t;
using NodeId = std::int32_t;

/// How a tensor is in its storage.
struct Geometry {
  at::ScalarType type = at::kFloat;
  c10::Device device{c10::kCPU};
  std::vector<std::int64_t> sizes{};
  std::vector<std::int64_t> strides{};
  std::int64_t offset = 0;

  bool operator==(const Geometry&) const = default;
  std::int64_t elements() const;
  /// Size of the elements, without gaps between them.
  std::size_t bytes() const;
  /// Whether no two elements share memory, and there is nothing between them.
  bool is_dense() const;
  bool is_contiguous() const;
};

/// bfloat16 or float16.
bool is_short_float(at::ScalarType type);

Geometry geometry_of(const at::Tensor& tensor);
Geometry contiguous_geometry(at::ScalarType type, c10::Device device,
                             std::vector<std::int64_t> sizes);

/// Memory. What shares it aliases.
struct Storage {
  enum class Kind {
    /// An operation of the graph makes it.
    kComputed,
    /// Given to each run: Graph::inputs.
    kInput,
    /// There before the step and after it: variables, gradients, statistics.
    kExternal,
  };
  Kind kind = Kind::kComputed;
  /// That of kExternal, kept alive.
  c10::Storage memory{};
};

/// A tensor: a view of a storage, with what the last operation before its reader has left there.
/// Two tensors of one storage and geometry are one value, so views are no operations.
struct Value {
  StorageId storage = -1;
  Geometry geometry{};
};

/// One argument of an operation.
struct Argument {
  enum class Kind { kConstant, kTensor, kTensorList };
  Kind kind = Kind::kConstant;
  /// Anything but tensors; numbers that libtorch wraps in tensors too.
  c10::IValue constant{};
  /// One value for kTensor, absent where the tensor is undefined.
  std::vector<std::optional<ValueId>> tensors{};
  /// Whether the element type of a kTensorList is Tensor?.
  bool optional_elements = false;
};

/// One return of an operation that is a tensor, or an element of one that is a list of them.
struct Result {
  std::size_t place = 0;
  /// Position in a returned list.
  std::optional<std::size_t> element{};
  /// Absent where the tensor was undefined.
  std::optional<ValueId> value{};
};

/// A kernel of our own instead of operations. See fused_kernel.h.
class Kernel;

struct Node {
  /// Null where `kernel` is set.
  std::optional<c10::OperatorHandle> operation{};
  std::shared_ptr<const Kernel> kernel{};
  std::vector<Argument> arguments{};
  std::vector<Result> results{};
  /// Those of its arguments that it changes. A kernel also makes the storages of its results.
  std::vector<ValueId> writes{};
  /// Draws from libtorch's generators: neither removed, nor shared, nor reordered.
  bool random = false;

  /// "aten::add.Tensor", or the kernel's name.
  std::string name() const;
};

/// A step, in an order in which it can run. An operation that changes a tensor is followed by those
/// that read it changed; passes keep that order where a storage is written after it was made.
struct Graph {
  std::vector<Storage> storages{};
  std::vector<Value> values{};
  std::vector<Node> nodes{};
  /// Values that each run is given, in its order.
  std::vector<ValueId> inputs{};
  /// Values that each run returns; absent where the tensor is undefined.
  std::vector<std::optional<ValueId>> outputs{};

  const Geometry& geometry(ValueId value) const { return values[index(value)].geometry; }
  StorageId storage_of(ValueId value) const { return values[index(value)].storage; }
  const Storage& storage(StorageId storage) const { return storages[index(storage)]; }

  StorageId add_storage(Storage::Kind kind);
  /// The value of this storage and geometry, a new one where there is none.
  ValueId value(StorageId storage, const Geometry& geometry);
  /// A value with a storage of its own.
  ValueId new_value(const Geometry& geometry);

  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }
};

/// The values that a node reads, those that it changes included.
std::vector<ValueId> values_read(const Node& node);
/// The results of a node that are defined.
std::vector<ValueId> values_made(const Node& node);

/// "f32[8, 16]" and, where they are not contiguous, strides.
std::string describe(const Geometry& geometry);
/// One line per node, for people: values, operation, arguments, what it changes.
std::string to_text(const Graph& graph);
/// The first line in which the two differ, or nothing: for two recordings of one step.
std::optional<std::string> first_difference(const Graph& left, const Graph& right);

}  // namespace muster::compiler
