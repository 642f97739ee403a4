#include "muster/saved_model/onnx/model.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "muster/base/error.h"
#include "muster/onnx.pb.h"

namespace muster::onnx {
namespace {

using graph::DataType;
using graph::TensorValue;

void put_graph(const Model& model, GraphProto& out);

void put_attribute(const std::string& name, const Attribute& value, AttributeProto& out) {
  out.set_name(name);
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    out.set_type(AttributeProto::INT);
    out.set_i(*number);
  } else if (const auto* real = std::get_if<float>(&value)) {
    out.set_type(AttributeProto::FLOAT);
    out.set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    out.set_type(AttributeProto::STRING);
    out.set_s(*text);
  } else if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value)) {
    out.set_type(AttributeProto::INTS);
    for (const auto each : *numbers) out.add_ints(each);
  } else if (const auto* inner = std::get_if<std::shared_ptr<const Model>>(&value)) {
    out.set_type(AttributeProto::GRAPH);
    put_graph(**inner, *out.mutable_g());
  } else {
    out.set_type(AttributeProto::STRINGS);
    for (const auto& each : std::get<std::vector<std::string>>(value)) out.add_strings(each);
  }
}

void put_node(const Node& node, NodeProto& out) {
  out.set_name(node.name);
  out.set_op_type(node.op);
  if (!node.domain.empty()) out.set_domain(node.domain);
  for (const auto& input : node.inputs) out.add_input(input);
  for (const auto& output : node.outputs) out.add_output(output);
  for (const auto& [name, value] : node.attributes) {
    put_attribute(name, value, *out.add_attribute());
  }
}

void put_value(const ValueInfo& value, ValueInfoProto& out) {
  out.set_name(value.name);
  auto& type = *out.mutable_type()->mutable_tensor_type();
  type.set_elem_type(element_type(value.type));
  if (!value.shape) return;
  auto& shape = *type.mutable_shape();
  for (const auto& size : *value.shape) {
    auto& dimension = *shape.add_dim();
    if (const auto* known = std::get_if<std::int64_t>(&size)) {
      dimension.set_dim_value(*known);
    } else {
      dimension.set_dim_param(std::get<std::string>(size));
    }
  }
}

void put_initializer(const Initializer& initializer, TensorProto& out) {
  out.set_name(initializer.name);
  out.set_data_type(element_type(initializer.value.dtype));
  for (const auto size : initializer.value.shape) out.add_dims(size);
  out.set_raw_data(initializer.value.bytes);
}

void put_graph(const Model& model, GraphProto& out) {
  out.set_name(model.graph_name);
  for (const auto& node : model.nodes) put_node(node, *out.add_node());
  for (const auto& each : model.initializers) put_initializer(each, *out.add_initializer());
  for (const auto& input : model.inputs) put_value(input, *out.add_input());
  for (const auto& output : model.outputs) put_value(output, *out.add_output());
}

bool has_words(const Model& model) {
  return std::any_of(model.nodes.begin(), model.nodes.end(), [](const Node& node) {
    if (node.domain == kWordsDomain) return true;
    return std::any_of(node.attributes.begin(), node.attributes.end(), [](const auto& attribute) {
      const auto* inner = std::get_if<std::shared_ptr<const Model>>(&attribute.second);
      return inner != nullptr && has_words(**inner);
    });
  });
}

std::string_view type_name(DataType type) {
  constexpr std::string_view kNames[] = {"undefined",  "float",   "uint8",  "int8",   "uint16",
                                         "int16",      "int32",   "int64",  "string", "bool",
                                         "float16",    "double",  "uint32", "uint64", "complex64",
                                         "complex128", "bfloat16"};
  return kNames[static_cast<std::size_t>(element_type(type))];
}

std::string text_of(const ValueInfo& value) {
  if (!value.shape) return fmt::format("{}: {}", value.name, type_name(value.type));
  std::vector<std::string> sizes;
  for (const auto& size : *value.shape) {
    const auto* known = std::get_if<std::int64_t>(&size);
    sizes.push_back(known != nullptr ? std::to_string(*known) : std::get<std::string>(size));
  }
  return fmt::format("{}: {}[{}]", value.name, type_name(value.type), fmt::join(sizes, ", "));
}

template <typename T>
std::string values_text(const TensorValue& value) {
  return fmt::format(" = {}", value.values<T>());
}

std::string text_of(const Initializer& initializer) {
  const auto& value = initializer.value;
  std::string text = fmt::format("{}: {}[{}]", initializer.name, type_name(value.dtype),
                                 fmt::join(value.shape, ", "));
  // Those that say how something is computed; weights are many.
  if (value.dtype == DataType::kInt64) text += values_text<std::int64_t>(value);
  if (value.dtype == DataType::kInt32) text += values_text<std::int32_t>(value);
  if (value.dtype == DataType::kFloat && value.shape.empty()) text += values_text<float>(value);
  return text;
}

std::string text_of(const Attribute& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("\"{}\"", *text);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* real = std::get_if<float>(&value)) return fmt::format("{}", *real);
  if (const auto* words = std::get_if<std::vector<std::string>>(&value)) {
    return fmt::format("{}", *words);
  }
  if (const auto* inner = std::get_if<std::shared_ptr<const Model>>(&value)) {
    return fmt::format("{{\n{}}}", to_text(**inner));
  }
  return fmt::format("{}", std::get<std::vector<std::int64_t>>(value));
}

std::string text_of(const Node& node) {
  std::vector<std::string> arguments = node.inputs;
  for (const auto& [name, value] : node.attributes) {
    arguments.push_back(fmt::format("{}={}", name, text_of(value)));
  }
  return fmt::format("{} = {}({})", fmt::join(node.outputs, ", "), node.op,
                     fmt::join(arguments, ", "));
}

}  // namespace

std::int32_t element_type(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return 1;
    case DataType::kUint8:
      return 2;
    case DataType::kInt8:
      return 3;
    case DataType::kUint16:
      return 4;
    case DataType::kInt16:
      return 5;
    case DataType::kInt32:
      return 6;
    case DataType::kInt64:
      return 7;
    case DataType::kString:
      return 8;
    case DataType::kBool:
      return 9;
    case DataType::kHalf:
      return 10;
    case DataType::kDouble:
      return 11;
    case DataType::kUint32:
      return 12;
    case DataType::kUint64:
      return 13;
    case DataType::kComplex64:
      return 14;
    case DataType::kComplex128:
      return 15;
    case DataType::kBfloat16:
      return 16;
    default:
      throw Unimplemented("ONNX has no type {}", graph::name_of(type));
  }
}

std::string encode_model(const Model& model) {
  std::uint64_t total = 0;
  for (const auto& initializer : model.initializers) total += initializer.value.bytes.size();
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (total > kMost) {
    throw InvalidArgument("the model has {} bytes of constants, an ONNX file at most {}", total,
                          kMost);
  }
  ModelProto out;
  out.set_ir_version(kIrVersion);
  out.set_producer_name("muster");
  auto& opset = *out.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOpset);
  if (has_words(model)) {
    auto& words = *out.add_opset_import();
    words.set_domain(std::string(kWordsDomain));
    words.set_version(kWordsOpset);
  }
  for (const auto& [key, value] : model.metadata) {
    auto& entry = *out.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  put_graph(model, *out.mutable_graph());
  if (out.ByteSizeLong() > kMost) {
    throw InvalidArgument("the model takes {} bytes, an ONNX file at most {}", out.ByteSizeLong(),
                          kMost);
  }
  return out.SerializeAsString();
}

std::string to_text(const Model& model) {
  std::string text;
  const auto line = [&](std::string_view kind, const std::string& rest) {
    text += kind;
    text += rest;
    text += '\n';
  };
  for (const auto& input : model.inputs) line("input ", text_of(input));
  for (const auto& each : model.initializers) line("constant ", text_of(each));
  for (const auto& node : model.nodes) line("", text_of(node));
  for (const auto& output : model.outputs) line("output ", text_of(output));
  return text;
}

}  // namespace muster::onnx
