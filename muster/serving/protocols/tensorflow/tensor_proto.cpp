// Tensors of TensorFlow's clients.
#include <google/protobuf/util/json_util.h>

#include <cstring>
#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/serving/protocols/tensorflow/tensor_proto_internal.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;
using muster::proto::TensorProto;

[[noreturn]] void throw_parse_error(std::string_view alias, std::string_view why) {
  throw InvalidArgument("tensor parsing error: {}: {}", alias, why);
}

// Elements of T from a list of the message, the last repeated to the end.
template <typename T, typename List>
void fill_numbers(const List& list, std::size_t count, TensorValue& out) {
  out.bytes.resize(count * sizeof(T));
  T value{};
  for (std::size_t i = 0; i < count; ++i) {
    if (i < static_cast<std::size_t>(list.size()))
      value = static_cast<T>(list.Get(static_cast<int>(i)));
    std::memcpy(out.bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

void fill_listed(const TensorProto& proto, std::size_t count, std::string_view alias,
                 TensorValue& out) {
  switch (out.dtype) {
    case DataType::kFloat:
      return fill_numbers<float>(proto.float_val(), count, out);
    case DataType::kDouble:
      return fill_numbers<double>(proto.double_val(), count, out);
    case DataType::kInt32:
      return fill_numbers<std::int32_t>(proto.int_val(), count, out);
    case DataType::kInt16:
      return fill_numbers<std::int16_t>(proto.int_val(), count, out);
    case DataType::kInt8:
      return fill_numbers<std::int8_t>(proto.int_val(), count, out);
    case DataType::kUint8:
      return fill_numbers<std::uint8_t>(proto.int_val(), count, out);
    case DataType::kUint16:
      return fill_numbers<std::uint16_t>(proto.int_val(), count, out);
    case DataType::kInt64:
      return fill_numbers<std::int64_t>(proto.int64_val(), count, out);
    case DataType::kUint32:
      return fill_numbers<std::uint32_t>(proto.uint32_val(), count, out);
    case DataType::kUint64:
      return fill_numbers<std::uint64_t>(proto.uint64_val(), count, out);
    case DataType::kBool:
      return fill_numbers<bool>(proto.bool_val(), count, out);
    case DataType::kHalf:
    case DataType::kBfloat16:
      return fill_numbers<std::uint16_t>(proto.half_val(), count, out);
    default:
      throw_parse_error(alias, "its type is not supported");
  }
}

std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  return std::nullopt;
}

// TensorFlow's own coding of strings: all lengths, then all bytes.
void fill_coded_strings(std::string_view bytes, std::size_t count, std::string_view alias,
                        TensorValue& out) {
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto size = take_varint(bytes);
    if (!size) throw_parse_error(alias, "the lengths of its strings are cut short");
    sizes.push_back(*size);
  }
  for (const std::uint64_t size : sizes) {
    if (size > bytes.size()) throw_parse_error(alias, "its strings are cut short");
    out.strings.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  if (!bytes.empty()) throw_parse_error(alias, "bytes follow its last string");
}

void fill_strings(const TensorProto& proto, std::size_t count, std::string_view alias,
                  std::size_t most_bytes, TensorValue& out) {
  if (!proto.tensor_content().empty()) {
    if (count > proto.tensor_content().size()) throw_parse_error(alias, "it is cut short");
    return fill_coded_strings(proto.tensor_content(), count, alias, out);
  }
  const auto given = static_cast<std::size_t>(proto.string_val_size());
  const std::string last = given > 0 ? proto.string_val(static_cast<int>(given) - 1) : "";
  if (count > given && (count - given) > most_bytes / (sizeof(std::string) + last.size())) {
    throw_parse_error(alias, "its shape asks for more than is allowed");
  }
  out.strings.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    out.strings.push_back(i < given ? proto.string_val(static_cast<int>(i)) : last);
  }
}

template <typename T, typename Add>
void write_numbers(const TensorValue& tensor, const Add& add) {
  for (std::size_t at = 0; at + sizeof(T) <= tensor.bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, tensor.bytes.data() + at, sizeof(T));
    add(value);
  }
}

// As many numbers as bytes, in one copy.
template <typename T, typename List>
void copy_numbers(const TensorValue& tensor, List& list) {
  const std::size_t count = tensor.bytes.size() / sizeof(T);
  list.Resize(static_cast<int>(count), T{});
  if (count > 0) std::memcpy(list.mutable_data(), tensor.bytes.data(), count * sizeof(T));
}

}  // namespace

TensorValue tensor_of(const TensorProto& proto, std::string_view alias, std::size_t most_bytes) {
  const auto type = graph::data_type_from(proto.dtype());
  if (!type || *type == DataType::kInvalid) throw_parse_error(alias, "it has no type");
  TensorValue out{.dtype = *type};
  if (proto.tensor_shape().unknown_rank()) throw_parse_error(alias, "its rank is unknown");
  for (const auto& dim : proto.tensor_shape().dim()) out.shape.push_back(dim.size());
  const auto elements = graph::element_count(out.shape);
  if (!elements) throw_parse_error(alias, "its shape is negative or too large");
  const auto count = static_cast<std::size_t>(*elements);
  if (*type == DataType::kString) {
    fill_strings(proto, count, alias, most_bytes, out);
    return out;
  }
  const std::size_t each = graph::element_bytes(*type);
  if (each == 0) throw_parse_error(alias, "its type is not supported");
  if (count > most_bytes / each)
    throw_parse_error(alias, "its shape asks for more than is allowed");
  if (!proto.tensor_content().empty()) {
    if (proto.tensor_content().size() != count * each) {
      throw_parse_error(alias, "its bytes do not fill its shape");
    }
    out.bytes = proto.tensor_content();
    return out;
  }
  fill_listed(proto, count, alias, out);
  return out;
}

void write_tensor(const TensorValue& tensor, bool raw, TensorProto& out) {
  out.set_dtype(static_cast<muster::proto::DataType>(tensor.dtype));
  auto* const shape = out.mutable_tensor_shape();
  for (const std::int64_t size : tensor.shape) shape->add_dim()->set_size(size);
  if (tensor.dtype == DataType::kString) {
    for (const std::string& text : tensor.strings) out.add_string_val(text);
    return;
  }
  if (raw) {
    out.set_tensor_content(tensor.bytes);
    return;
  }
  const auto add_int = [&](auto value) { out.add_int_val(value); };
  switch (tensor.dtype) {
    case DataType::kFloat:
      return copy_numbers<float>(tensor, *out.mutable_float_val());
    case DataType::kDouble:
      return copy_numbers<double>(tensor, *out.mutable_double_val());
    case DataType::kInt32:
      return copy_numbers<std::int32_t>(tensor, *out.mutable_int_val());
    case DataType::kInt64:
      return copy_numbers<std::int64_t>(tensor, *out.mutable_int64_val());
    case DataType::kUint32:
      return copy_numbers<std::uint32_t>(tensor, *out.mutable_uint32_val());
    case DataType::kUint64:
      return copy_numbers<std::uint64_t>(tensor, *out.mutable_uint64_val());
    case DataType::kInt16:
      return write_numbers<std::int16_t>(tensor, add_int);
    case DataType::kInt8:
      return write_numbers<std::int8_t>(tensor, add_int);
    case DataType::kUint8:
      return write_numbers<std::uint8_t>(tensor, add_int);
    case DataType::kUint16:
      return write_numbers<std::uint16_t>(tensor, add_int);
    case DataType::kBool:
      return write_numbers<std::uint8_t>(tensor, [&](auto value) { out.add_bool_val(value != 0); });
    case DataType::kHalf:
    case DataType::kBfloat16:
      return write_numbers<std::uint16_t>(tensor, [&](auto value) { out.add_half_val(value); });
    default:
      out.set_tensor_content(tensor.bytes);
  }
}

std::string tensor_proto_json(const graph::TensorValue& tensor) {
  TensorProto proto;
  write_tensor(tensor, /*raw=*/false, proto);
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(proto, &text, options);
  if (!status.ok()) throw Internal("a tensor cannot be written as JSON: {}", status.ToString());
  return text;
}

}  // namespace muster::serving
