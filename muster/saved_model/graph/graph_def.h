#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/saved_model/graph/data_type.h"
#include "muster/saved_model/graph/tensor_value.h"

/// TensorFlow's GraphDef as values. Where a struct has one, `extra` holds what a file had and no
/// field here has, in protobuf's encoding: it is written again as it came, so that a file passes
/// through whole. Two of these are equal when their files mean the same.
namespace muster::graph {

struct AttrValue;
/// Attributes in the order of their names.
using Attrs = std::map<std::string, AttrValue, std::less<>>;

/// A function with the attributes it is to be called with.
struct FunctionRef {
  std::string name{};
  Attrs attrs{};
  bool operator==(const FunctionRef& other) const;
};

/// The name of an attribute of the enclosing function, whose value replaces this when it is called.
struct AttrPlaceholder {
  std::string name{};
  bool operator==(const AttrPlaceholder&) const = default;
};

/// A list attribute; at most one of these has elements. Floats compare by their bits, so NaN equals
/// itself.
struct AttrList {
  std::vector<std::string> strings{};
  std::vector<std::int64_t> ints{};
  std::vector<float> floats{};
  std::vector<bool> bools{};
  std::vector<DataType> types{};
  std::vector<Shape> shapes{};
  std::vector<TensorValue> tensors{};
  std::vector<FunctionRef> functions{};
  bool operator==(const AttrList& other) const;
};

/// The value of an attribute. Floats compare by their bits.
struct AttrValue {
  using Value = std::variant<std::monostate, std::string, std::int64_t, float, bool, DataType,
                             Shape, TensorValue, AttrList, FunctionRef, AttrPlaceholder>;
  Value value{};

  AttrValue() = default;
  AttrValue(std::string text) : value(std::move(text)) {}         // NOLINT: {"T", DataType::kFloat}
  AttrValue(std::string_view text) : value(std::string(text)) {}  // NOLINT
  AttrValue(const char* text) : value(std::string(text)) {}       // NOLINT
  AttrValue(std::int64_t number) : value(number) {}               // NOLINT
  AttrValue(int number) : value(std::int64_t{number}) {}          // NOLINT
  AttrValue(float number) : value(number) {}                      // NOLINT
  AttrValue(bool truth) : value(truth) {}                         // NOLINT
  AttrValue(DataType type) : value(type) {}                       // NOLINT
  AttrValue(Shape shape) : value(std::move(shape)) {}             // NOLINT
  AttrValue(TensorValue tensor) : value(std::move(tensor)) {}     // NOLINT
  AttrValue(AttrList list) : value(std::move(list)) {}            // NOLINT
  AttrValue(FunctionRef function) : value(std::move(function)) {}  // NOLINT
  AttrValue(AttrPlaceholder name) : value(std::move(name)) {}      // NOLINT

  static AttrValue list(std::vector<std::string> strings);
  static AttrValue list(std::vector<std::int64_t> ints);
  static AttrValue list(std::vector<float> floats);
  static AttrValue list(std::vector<DataType> types);
  static AttrValue list(std::vector<Shape> shapes);

  bool operator==(const AttrValue& other) const;
};

/// "string", "int", "list", ...: the kind of value, for messages.
std::string_view kind_of(const AttrValue& value);

/// One operation of a graph.
struct NodeDef {
  std::string name{};
  std::string op{};
  /// "name" or "name:1" (output 1), then "^name" (runs before, gives nothing); inside a function
  /// "argument" or "name:output:0".
  std::vector<std::string> inputs{};
  std::string device{};
  Attrs attrs{};
  std::string extra{};
  bool operator==(const NodeDef&) const = default;
};

/// An input or output of an operation or function.
struct ArgDef {
  std::string name{};
  /// The type, or kInvalid where an attribute has it.
  DataType type = DataType::kInvalid;
  /// The attribute that holds the type; with number_attr a run of values of this type.
  std::string type_attr{};
  std::string number_attr{};
  /// The attribute that holds a list of types, one a value.
  std::string type_list_attr{};
  bool is_ref = false;
  std::string extra{};
  bool operator==(const ArgDef&) const = default;
};

/// An attribute that an operation has.
struct AttrDef {
  std::string name{};
  /// "type", "int", "list(shape)", ...
  std::string type{};
  std::optional<AttrValue> default_value{};
  /// Least value of an int; least length of a list.
  std::optional<std::int64_t> minimum{};
  /// A list of the values that are allowed.
  std::optional<AttrValue> allowed_values{};
  std::string extra{};
  bool operator==(const AttrDef&) const = default;
};

/// Inputs, outputs and attributes of an operation; the signature of a function.
struct OpDef {
  std::string name{};
  std::vector<ArgDef> inputs{};
  std::vector<ArgDef> outputs{};
  std::vector<std::string> control_outputs{};
  std::vector<AttrDef> attrs{};
  bool is_stateful = false;
  std::string extra{};
  bool operator==(const OpDef&) const = default;
};

/// A function of the library: a graph with arguments and results.
struct FunctionDef {
  OpDef signature{};
  Attrs attrs{};
  std::vector<NodeDef> nodes{};
  /// For each output of the signature the value that becomes it: "Identity:output:0".
  std::map<std::string, std::string, std::less<>> ret{};
  /// For each control output the node.
  std::map<std::string, std::string, std::less<>> control_ret{};
  std::string extra{};
  bool operator==(const FunctionDef&) const = default;
};

/// Which TensorFlow wrote a graph, and which may read it.
struct Versions {
  std::int32_t producer = 0;
  std::int32_t min_consumer = 0;
  std::vector<std::int32_t> bad_consumers{};
  bool operator==(const Versions&) const = default;
};

struct GraphDef {
  std::vector<NodeDef> nodes{};
  std::vector<FunctionDef> functions{};
  /// Function and the function that is its gradient.
  std::vector<std::pair<std::string, std::string>> gradients{};
  Versions versions{};
  std::string library_extra{};
  std::string extra{};
  bool operator==(const GraphDef&) const = default;
};

/// Limits of reading a graph, checked before memory is taken.
struct GraphLimits {
  /// Size of the whole file; protobuf's own limit.
  std::uint64_t file_bytes = (std::uint64_t{1} << 31) - 1;
  /// Nodes of the graph and all functions together.
  std::size_t nodes = 1'000'000;
  std::size_t functions = 100'000;
  /// Names, texts and messages inside messages, all together: each takes memory of its own.
  std::size_t parts = 30'000'000;
  std::size_t inputs_per_node = 65'536;
  std::size_t attrs_per_node = 1'024;
  /// Length of the name of a node, operation, input, attribute, key or tag.
  std::size_t name_bytes = 8'192;
  /// Size of one attribute, whatever is in it.
  std::uint64_t attr_bytes = std::uint64_t{1} << 30;
  /// Size of one constant with all its elements.
  std::uint64_t tensor_bytes = std::uint64_t{1} << 30;
  /// Size of all elements together that the file does not spell out but repeats.
  std::uint64_t repeated_bytes = std::uint64_t{1} << 28;
  std::size_t rank = 254;
  /// Nesting depth of attributes inside attributes.
  int depth = 16;
};

/// A GraphDef in protobuf's encoding, the same bytes for equal graphs. Throws InvalidArgument when
/// it is larger than protobuf allows.
std::string encode_graph(const GraphDef& graph);
/// Throws DataLoss for bytes that are no GraphDef, ResourceExhausted beyond a limit; both name the
/// node and the field.
GraphDef decode_graph(std::string_view bytes, const GraphLimits& limits = {});

/// Where an input of a node comes from. The views point into what was parsed.
struct InputRef {
  std::string_view node{};
  /// Inside a function body: the name of the node's output argument; empty for a plain argument.
  std::string_view output{};
  /// Which output of the node, or of the run of values that `output` names.
  int index = 0;
  /// "^node": runs before and gives nothing.
  bool control = false;
  bool operator==(const InputRef&) const = default;
};

/// Parses "name", "name:1", "^name" and "name:output:1". Throws InvalidArgument for others.
InputRef parse_input(std::string_view input);

/// The attribute, or nullptr.
const AttrValue* find_attr(const Attrs& attrs, std::string_view name);

/// Throws InvalidArgument: the node has no such attribute, or one of another kind.
[[noreturn]] void throw_missing_attr(const NodeDef& node, std::string_view name,
                                     const AttrValue* found);

/// The attribute of a node, of type T (std::string, std::int64_t, float, bool, DataType, Shape,
/// TensorValue, AttrList, FunctionRef). Throws InvalidArgument, naming node and attribute.
template <typename T>
const T& attr(const NodeDef& node, std::string_view name) {
  const AttrValue* found = find_attr(node.attrs, name);
  if (found != nullptr) {
    if (const T* value = std::get_if<T>(&found->value)) return *value;
  }
  throw_missing_attr(node, name, found);
}

/// The same with the value of a node that has no such attribute.
template <typename T>
T attr_or(const NodeDef& node, std::string_view name, T otherwise) {
  return find_attr(node.attrs, name) == nullptr ? std::move(otherwise) : attr<T>(node, name);
}

/// A node "Const" of this value.
NodeDef constant_node(std::string name, TensorValue value);
/// A node "Placeholder", an input of the graph.
NodeDef placeholder_node(std::string name, DataType type, Shape shape);

}  // namespace muster::graph
