// GraphDef and all that is in it.
#include <climits>

#include "muster/saved_model/graph/codec_internal.h"
#include "muster/saved_model/graph/message_fields_internal.h"

namespace muster::graph {
namespace {

using wire::kBytes;
using wire::kFixed32;
using wire::kVarint;
using wire::tag;

template <typename Do>
void in_context(std::string_view what, const std::string& name, Do&& body) {
  try {
    body();
  } catch (Error& error) {
    error.add_context(fmt::format("{} '{}'", what, name));
    throw;
  }
}

constexpr std::tuple kArgFields{
    PlainField{1, &ArgDef::name, "the name of an argument"},
    PlainField{3, &ArgDef::type},
    PlainField{4, &ArgDef::type_attr, "type_attr"},
    PlainField{5, &ArgDef::number_attr, "number_attr"},
    PlainField{6, &ArgDef::type_list_attr, "type_list_attr"},
    PlainField{16, &ArgDef::is_ref},
};
// Others come before or after these, as in the lists below.
constexpr std::tuple kAttrDefFields{
    PlainField{1, &AttrDef::name, "the name of an attribute"},
    PlainField{2, &AttrDef::type, "the kind of an attribute"},
};
constexpr std::tuple kOpFields{
    PlainField{17, &OpDef::is_stateful},
    PlainField{20, &OpDef::control_outputs, "a control output"},
};
constexpr std::tuple kVersionFields{
    PlainField{1, &Versions::producer},
    PlainField{2, &Versions::min_consumer},
};

// Counts how deep attributes lie in attributes, for as long as it lives.
class Deeper {
 public:
  explicit Deeper(Decoding& decoding) : decoding_(decoding) {
    check_limit(static_cast<std::uint64_t>(decoding.depth) + 1,
                static_cast<std::uint64_t>(decoding.limits.depth),
                "the depth of attributes in attributes", "depth");
    ++decoding_.depth;
  }
  ~Deeper() { --decoding_.depth; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Decoding& decoding_;
};

// ------------------------------------------------------------------------------------ reading

AttrValue decode_attr(const Message& message, Decoding& decoding);

void take_attr(wire::Reader& reader, Decoding& decoding, Attrs& attrs) {
  take_entry(reader, decoding, "attribute", attrs,
             [&](const Message& value) { return decode_attr(value, decoding); });
  check_limit(attrs.size(), decoding.limits.attrs_per_node, "the number of attributes",
              "attrs_per_node");
}

FunctionRef decode_function_ref(const Message& message, Decoding& decoding) {
  FunctionRef out;
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        out.name = take_name(reader, decoding, "the name of a function");
        return true;
      case tag(2, kBytes):
        take_attr(reader, decoding, out.attrs);
        return true;
      default:
        return false;
    }
  });
  return out;
}

Shape shape_in(const Message& message, Decoding& decoding) {
  Shape shape;
  decode_shape(message, decoding, shape);
  return shape;
}

TensorValue tensor_in(const Message& message, Decoding& decoding) {
  TensorValue tensor;
  decode_tensor(message, decoding, tensor);
  return tensor;
}

AttrList decode_list(const Message& message, Decoding& decoding) {
  AttrList out;
  const auto add_int = [&](wire::Reader& reader) { out.ints.push_back(take_int(reader)); };
  const auto add_float = [&](wire::Reader& reader) {
    out.floats.push_back(reader.fixed32_float());
  };
  const auto add_bool = [&](wire::Reader& reader) { out.bools.push_back(take_bool(reader)); };
  const auto add_type = [&](wire::Reader& reader) { out.types.push_back(take_type(reader)); };
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(2, kBytes):
        out.strings.push_back(take_bytes(reader, decoding));
        return true;
      case tag(7, kBytes):
        out.shapes.push_back(shape_in(take_message(reader, decoding), decoding));
        return true;
      case tag(8, kBytes):
        out.tensors.push_back(tensor_in(take_message(reader, decoding), decoding));
        return true;
      case tag(9, kBytes):
        out.functions.push_back(decode_function_ref(take_message(reader, decoding), decoding));
        return true;
      default:
        return take_repeated(field, 3, kVarint, reader, decoding, add_int) ||
               take_repeated(field, 4, kFixed32, reader, decoding, add_float) ||
               take_repeated(field, 5, kVarint, reader, decoding, add_bool) ||
               take_repeated(field, 6, kVarint, reader, decoding, add_type);
    }
  });
  return out;
}

AttrValue decode_attr(const Message& message, Decoding& decoding) {
  const Deeper deeper(decoding);
  check_limit(message.bytes.size(), decoding.limits.attr_bytes, "the size of an attribute",
              "attr_bytes");
  AttrValue out;
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        out = decode_list(take_message(reader, decoding), decoding);
        return true;
      case tag(2, kBytes):
        out = take_bytes(reader, decoding);
        return true;
      case tag(3, kVarint):
        out = take_int(reader);
        return true;
      case tag(4, kFixed32):
        out = reader.fixed32_float();
        return true;
      case tag(5, kVarint):
        out = take_bool(reader);
        return true;
      case tag(6, kVarint):
        out = take_type(reader);
        return true;
      case tag(7, kBytes):
        out = shape_in(take_message(reader, decoding), decoding);
        return true;
      case tag(8, kBytes):
        out = tensor_in(take_message(reader, decoding), decoding);
        return true;
      case tag(9, kBytes):
        out = AttrPlaceholder{take_name(reader, decoding, "the name of a placeholder")};
        return true;
      case tag(10, kBytes):
        out = decode_function_ref(take_message(reader, decoding), decoding);
        return true;
      default:
        return false;
    }
  });
  return out;
}

void read_node(const Message& message, Decoding& decoding, NodeDef& out) {
  for_each_field(message, &out.extra, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        out.name = take_name(reader, decoding, "the name of a node");
        return true;
      case tag(2, kBytes):
        out.op = take_name(reader, decoding, "the name of an operation");
        return true;
      case tag(3, kBytes):
        check_limit(out.inputs.size() + 1, decoding.limits.inputs_per_node, "the number of inputs",
                    "inputs_per_node");
        out.inputs.push_back(take_name(reader, decoding, "the name of an input"));
        return true;
      case tag(4, kBytes):
        out.device = take_name(reader, decoding, "the name of a device");
        return true;
      case tag(5, kBytes):
        take_attr(reader, decoding, out.attrs);
        return true;
      default:
        return false;
    }
  });
  if (out.name.empty()) throw DataLoss("a node without a name at offset {}", message.offset);
  if (out.op.empty()) throw DataLoss("no operation");
}

void take_node(wire::Reader& reader, Decoding& decoding, std::vector<NodeDef>& nodes) {
  check_limit(++decoding.nodes, decoding.limits.nodes, "the number of nodes", "nodes");
  NodeDef node;
  try {
    read_node(take_message(reader, decoding), decoding, node);
  } catch (Error& error) {
    if (!node.name.empty()) error.add_context(fmt::format("node '{}'", node.name));
    throw;
  }
  nodes.push_back(std::move(node));
}

ArgDef decode_arg(const Message& message, Decoding& decoding) {
  ArgDef out;
  decode_plain(message, &out.extra, decoding, kArgFields, out);
  return out;
}

AttrDef decode_attr_def(const Message& message, Decoding& decoding) {
  AttrDef out;
  bool has_minimum = false;
  std::int64_t minimum = 0;
  for_each_field(message, &out.extra, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(3, kBytes):
        out.default_value = decode_attr(take_message(reader, decoding), decoding);
        return true;
      case tag(5, kVarint):
        has_minimum = take_bool(reader);
        return true;
      case tag(6, kVarint):
        minimum = take_int(reader);
        return true;
      case tag(7, kBytes):
        out.allowed_values = decode_attr(take_message(reader, decoding), decoding);
        return true;
      default:
        return take_plain(field, reader, decoding, kAttrDefFields, out);
    }
  });
  if (has_minimum) out.minimum = minimum;
  return out;
}

FunctionDef decode_function(const Message& message, Decoding& decoding) {
  FunctionDef out;
  const auto text = [](const Message& value) { return std::string(value.bytes); };
  const auto read = [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        decode_op(take_message(reader, decoding), decoding, out.signature);
        return true;
      case tag(3, kBytes):
        take_node(reader, decoding, out.nodes);
        return true;
      case tag(4, kBytes):
        take_entry(reader, decoding, "result", out.ret, text);
        return true;
      case tag(5, kBytes):
        take_attr(reader, decoding, out.attrs);
        return true;
      case tag(6, kBytes):
        take_entry(reader, decoding, "control result", out.control_ret, text);
        return true;
      default:
        return false;
    }
  };
  try {
    for_each_field(message, &out.extra, read);
    if (out.signature.name.empty()) throw DataLoss("a function without a name");
  } catch (Error& error) {
    error.add_context(fmt::format("function '{}'", out.signature.name));
    throw;
  }
  return out;
}

std::pair<std::string, std::string> decode_gradient(const Message& message, Decoding& decoding) {
  std::pair<std::string, std::string> out;
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    if (field != tag(1, kBytes) && field != tag(2, kBytes)) return false;
    (field == tag(1, kBytes) ? out.first : out.second) =
        take_name(reader, decoding, "the name of a function");
    return true;
  });
  return out;
}

void decode_library(const Message& message, Decoding& decoding, GraphDef& out) {
  for_each_field(message, &out.library_extra, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        check_limit(++decoding.functions, decoding.limits.functions, "the number of functions",
                    "functions");
        out.functions.push_back(decode_function(take_message(reader, decoding), decoding));
        return true;
      case tag(2, kBytes):
        check_limit(++decoding.functions, decoding.limits.functions,
                    "the number of functions and gradients", "functions");
        out.gradients.push_back(decode_gradient(take_message(reader, decoding), decoding));
        return true;
      default:
        return false;
    }
  });
}

void decode_versions(const Message& message, Decoding& decoding, Versions& out) {
  const auto add_bad = [&](wire::Reader& reader) {
    out.bad_consumers.push_back(take_int32(reader));
  };
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    return take_plain(field, reader, decoding, kVersionFields, out) ||
           take_repeated(field, 3, kVarint, reader, decoding, add_bad);
  });
}

// ------------------------------------------------------------------------------------ writing

std::string encode_attr(const AttrValue& attr);

void put_attrs(std::uint32_t field, const Attrs& attrs, std::string& out) {
  for (const auto& row : attrs) {
    in_context("attribute", row.first,
               [&] { put_entry(field, row.first, encode_attr(row.second), out); });
  }
}

std::string encode_function_ref(const FunctionRef& function) {
  std::string out;
  put_bytes(1, function.name, out);
  put_attrs(2, function.attrs, out);
  return out;
}

std::string encode_list(const AttrList& list) {
  std::string out;
  put_all(2, list.strings, out);
  put_packed(3, list.ints, out, append_number);
  put_packed(4, list.floats, out, append_float);
  put_packed(5, list.bools, out,
             [](bool value, std::string& bytes) { append_number(value, bytes); });
  put_packed(6, list.types, out, [](DataType value, std::string& bytes) {
    append_number(static_cast<std::int64_t>(value), bytes);
  });
  for (const Shape& shape : list.shapes) put_bytes_always(7, encode_shape(shape), out);
  for (const TensorValue& tensor : list.tensors) put_bytes_always(8, encode_tensor(tensor), out);
  for (const FunctionRef& function : list.functions) {
    put_bytes_always(9, encode_function_ref(function), out);
  }
  return out;
}

// Which member of a oneof is set is part of the message, so these are written also when they are 0.
struct EncodeValue {
  std::string& out;

  void operator()(std::monostate) const {}
  void operator()(const std::string& text) const { put_bytes_always(2, text, out); }
  void operator()(std::int64_t number) const {
    put_varint(3, static_cast<std::uint64_t>(number), out);
  }
  void operator()(float number) const { put_float_always(4, number, out); }
  void operator()(bool truth) const { put_varint(5, truth ? 1 : 0, out); }
  void operator()(DataType type) const { put_varint(6, static_cast<std::uint64_t>(type), out); }
  void operator()(const Shape& shape) const { put_bytes_always(7, encode_shape(shape), out); }
  void operator()(const TensorValue& tensor) const {
    put_bytes_always(8, encode_tensor(tensor), out);
  }
  void operator()(const AttrList& list) const { put_bytes_always(1, encode_list(list), out); }
  void operator()(const FunctionRef& function) const {
    put_bytes_always(10, encode_function_ref(function), out);
  }
  void operator()(const AttrPlaceholder& holder) const { put_bytes_always(9, holder.name, out); }
};

std::string encode_attr(const AttrValue& attr) {
  std::string out;
  std::visit(EncodeValue{out}, attr.value);
  return out;
}

std::string encode_node(const NodeDef& node) {
  std::string out;
  put_bytes(1, node.name, out);
  put_bytes(2, node.op, out);
  put_all(3, node.inputs, out);
  put_bytes(4, node.device, out);
  put_attrs(5, node.attrs, out);
  return out + node.extra;
}

void put_nodes(std::uint32_t field, const std::vector<NodeDef>& nodes, std::string& out) {
  for (const NodeDef& node : nodes) {
    in_context("node", node.name, [&] { put_bytes_always(field, encode_node(node), out); });
  }
}

std::string encode_arg(const ArgDef& arg) {
  std::string out;
  put_plain(arg, kArgFields, out);
  return out + arg.extra;
}

std::string encode_attr_def(const AttrDef& attr) {
  std::string out;
  put_plain(attr, kAttrDefFields, out);
  if (attr.default_value) put_bytes_always(3, encode_attr(*attr.default_value), out);
  put_bool(5, attr.minimum.has_value(), out);
  put_int(6, attr.minimum.value_or(0), out);
  if (attr.allowed_values) put_bytes_always(7, encode_attr(*attr.allowed_values), out);
  return out + attr.extra;
}

std::string encode_function(const FunctionDef& function) {
  std::string out;
  put_bytes_always(1, encode_op(function.signature), out);
  put_nodes(3, function.nodes, out);
  for (const auto& [name, value] : function.ret) put_entry(4, name, value, out);
  put_attrs(5, function.attrs, out);
  for (const auto& [name, value] : function.control_ret) put_entry(6, name, value, out);
  return out + function.extra;
}

std::string encode_library(const GraphDef& graph) {
  std::string out;
  for (const FunctionDef& function : graph.functions) {
    in_context("function", function.signature.name,
               [&] { put_bytes_always(1, encode_function(function), out); });
  }
  for (const auto& [function, gradient] : graph.gradients) {
    std::string entry;
    put_bytes(1, function, entry);
    put_bytes(2, gradient, entry);
    put_bytes_always(2, entry, out);
  }
  return out + graph.library_extra;
}

std::string encode_versions(const Versions& versions) {
  std::string out;
  put_plain(versions, kVersionFields, out);
  put_packed(3, versions.bad_consumers, out, append_number);
  return out;
}

}  // namespace

void check_limit(std::uint64_t value, std::uint64_t limit, std::string_view what,
                 std::string_view name) {
  if (value <= limit) return;
  throw ResourceExhausted("{} is {}, more than the {} that GraphLimits::{} leaves", what, value,
                          limit, name);
}

std::string take_name(wire::Reader& reader, Decoding& decoding, std::string_view what) {
  count_part(decoding);
  const std::string_view name = reader.bytes();
  if (name.size() > decoding.limits.name_bytes) {
    throw ResourceExhausted("{} has {} bytes, more than GraphLimits::name_bytes, {}", what,
                            name.size(), decoding.limits.name_bytes);
  }
  return std::string(name);
}

DataType take_type(wire::Reader& reader) {
  const std::int64_t number = take_int(reader);
  const std::optional<DataType> type = data_type_from(number);
  if (!type) reader.fail(fmt::format("{} is no DataType", number));
  return *type;
}

void decode_op(const Message& message, Decoding& decoding, OpDef& out) {
  for_each_field(message, &out.extra, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        out.name = take_name(reader, decoding, "the name of an operation");
        return true;
      case tag(2, kBytes):
        out.inputs.push_back(decode_arg(take_message(reader, decoding), decoding));
        return true;
      case tag(3, kBytes):
        out.outputs.push_back(decode_arg(take_message(reader, decoding), decoding));
        return true;
      case tag(4, kBytes):
        out.attrs.push_back(decode_attr_def(take_message(reader, decoding), decoding));
        return true;
      default:
        return take_plain(field, reader, decoding, kOpFields, out);
    }
  });
}

std::string encode_op(const OpDef& op) {
  std::string out;
  put_bytes(1, op.name, out);
  for (const ArgDef& arg : op.inputs) put_bytes_always(2, encode_arg(arg), out);
  for (const ArgDef& arg : op.outputs) put_bytes_always(3, encode_arg(arg), out);
  for (const AttrDef& attr : op.attrs) put_bytes_always(4, encode_attr_def(attr), out);
  put_plain(op, kOpFields, out);
  return out + op.extra;
}

void decode_graph(const Message& message, Decoding& decoding, GraphDef& out) {
  for_each_field(message, &out.extra, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        take_node(reader, decoding, out.nodes);
        return true;
      case tag(2, kBytes):
        decode_library(take_message(reader, decoding), decoding, out);
        return true;
      case tag(4, kBytes):
        decode_versions(take_message(reader, decoding), decoding, out.versions);
        return true;
      default:
        return false;
    }
  });
}

void check_message_size(std::string_view bytes, std::string_view what) {
  if (bytes.size() > INT_MAX) {
    throw InvalidArgument(
        "{} of {} bytes is too large for protobuf, whose limit is 2 GiB: keep large "
        "values in variables, not in constants",
        what, bytes.size());
  }
}

std::string encode_graph(const GraphDef& graph) {
  std::string out;
  put_nodes(1, graph.nodes, out);
  put_bytes(2, encode_library(graph), out);
  if (graph.versions != Versions{}) put_bytes_always(4, encode_versions(graph.versions), out);
  out += graph.extra;
  check_message_size(out, "a graph");
  return out;
}

GraphDef decode_graph(std::string_view bytes, const GraphLimits& limits) {
  check_limit(bytes.size(), limits.file_bytes, "the size of a graph", "file_bytes");
  Decoding decoding{limits};
  GraphDef graph;
  decode_graph(Message{bytes, 0}, decoding, graph);
  return graph;
}

}  // namespace muster::graph
