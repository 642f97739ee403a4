// Requests to gRPC's Predict and their answers as bytes. A request of a few numbers costs protobuf
// more in small allocations than the rest of the server takes for it.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/wire.h"
#include "muster/serving/protocols/tensorflow/fast_predict_internal.h"
#include "muster/serving/protocols/tensorflow/tensor_proto_internal.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;
using muster::wire::append_header;
using muster::wire::append_varint;
using muster::wire::field_bytes;
using muster::wire::kBytes;
using muster::wire::kVarint;
using muster::wire::Reader;
using muster::wire::tag;
using muster::wire::varint_bytes;

// The numbers of fields, by message.
constexpr std::uint32_t kSpecName = 1;
constexpr std::uint32_t kSpecVersion = 2;
constexpr std::uint32_t kSpecSignatureName = 3;
constexpr std::uint32_t kSpecVersionLabel = 4;
constexpr std::uint32_t kWrappedValue = 1;  // google.protobuf.Int64Value
constexpr std::uint32_t kRequestSpec = 1;
constexpr std::uint32_t kRequestInputs = 2;
constexpr std::uint32_t kRequestOutputFilter = 3;
constexpr std::uint32_t kResponseOutputs = 1;
constexpr std::uint32_t kResponseSpec = 2;
constexpr std::uint32_t kEntryKey = 1;
constexpr std::uint32_t kEntryValue = 2;
constexpr std::uint32_t kTensorType = 1;
constexpr std::uint32_t kTensorShape = 2;
constexpr std::uint32_t kTensorVersionNumber = 3;
constexpr std::uint32_t kTensorContent = 4;
constexpr std::uint32_t kTensorFloats = 5;
constexpr std::uint32_t kTensorDoubles = 6;
constexpr std::uint32_t kTensorInts = 7;
constexpr std::uint32_t kTensorStrings = 8;
constexpr std::uint32_t kTensorInt64s = 10;
constexpr std::uint32_t kTensorBools = 11;
constexpr std::uint32_t kShapeDim = 2;
constexpr std::uint32_t kDimSize = 1;

constexpr std::size_t kUsualInputs = 16;

// Texts of messages are UTF-8, which protobuf checks; names hardly ever are more than this.
bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// The payload of a field that is there once, and text.
bool take_text(Reader& reader, std::string_view& out) {
  if (!out.empty()) return false;
  out = reader.bytes();
  return !out.empty() && is_ascii(out);
}

// A message of one number, which is 0 when it is absent.
bool read_number(std::string_view bytes, std::uint32_t field, std::int64_t& out) {
  Reader reader(bytes, 0);
  out = 0;
  if (reader.done()) return true;
  if (reader.tag() != tag(field, kVarint)) return false;
  out = static_cast<std::int64_t>(reader.varint());
  return reader.done();
}

bool read_shape(std::string_view bytes, std::vector<std::int64_t>& out) {
  Reader reader(bytes, 0);
  while (!reader.done()) {
    std::int64_t size = 0;
    if (reader.tag() != tag(kShapeDim, kBytes) || !read_number(reader.bytes(), kDimSize, size)) {
      return false;
    }
    out.push_back(size);
  }
  return true;
}

template <typename T>
bool read_varints(std::string_view bytes, std::size_t count, TensorValue& out) {
  // Each takes a byte or more, so a short list claims no memory.
  if (count > bytes.size()) return false;
  out.bytes.resize(count * sizeof(T));
  Reader reader(bytes, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(reader.varint());
    std::memcpy(out.bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return reader.done();
}

bool copy_bytes(std::string_view bytes, std::size_t size, TensorValue& out) {
  if (bytes.size() != size) return false;
  out.bytes = bytes;
  return true;
}

// The list of values that an answer or a request has for a type; 0 where it is left to protobuf.
std::uint32_t list_of(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return kTensorFloats;
    case DataType::kDouble:
      return kTensorDoubles;
    case DataType::kInt32:
      return kTensorInts;
    case DataType::kInt64:
      return kTensorInt64s;
    case DataType::kBool:
      return kTensorBools;
    case DataType::kString:
      return kTensorStrings;
    default:
      return 0;
  }
}

bool read_list(std::string_view list, std::size_t count, TensorValue& out) {
  switch (out.dtype) {
    case DataType::kFloat:
      return copy_bytes(list, count * sizeof(float), out);
    case DataType::kDouble:
      return copy_bytes(list, count * sizeof(double), out);
    case DataType::kInt32:
      return read_varints<std::int32_t>(list, count, out);
    case DataType::kInt64:
      return read_varints<std::int64_t>(list, count, out);
    case DataType::kBool:
      return read_varints<bool>(list, count, out);
    default:
      return false;
  }
}

/// A TensorProto, as far as its fields are those of a plain tensor, each there once.
class FastTensor {
 public:
  bool read(std::string_view bytes, std::size_t most_bytes) {
    Reader reader(bytes, 0);
    while (!reader.done()) {
      if (!read_field(reader)) return false;
    }
    return finish(most_bytes);
  }
  TensorValue value() && { return std::move(value_); }

 private:
  bool read_field(Reader& reader) {
    const std::uint32_t field = reader.tag();
    switch (field) {
      case tag(kTensorType, kVarint):
        return !std::exchange(has_type_, true) && read_type(reader.varint());
      case tag(kTensorShape, kBytes):
        return !std::exchange(has_shape_, true) && read_shape(reader.bytes(), value_.shape);
      case tag(kTensorVersionNumber, kVarint):
        reader.varint();
        return true;
      case tag(kTensorStrings, kBytes):
        value_.strings.emplace_back(reader.bytes());
        return true;
      case tag(kTensorContent, kBytes):
      case tag(kTensorFloats, kBytes):
      case tag(kTensorDoubles, kBytes):
      case tag(kTensorInts, kBytes):
      case tag(kTensorInt64s, kBytes):
      case tag(kTensorBools, kBytes):
        data_ = reader.bytes();
        return std::exchange(data_field_, field >> 3) == 0;
      default:
        return false;
    }
  }

  bool read_type(std::uint64_t number) {
    if (number == 0 || number > kMostType) return false;
    const auto type = graph::data_type_from(static_cast<int>(number));
    if (!type) return false;
    value_.dtype = *type;
    return true;
  }

  // Whether there are as many values as the shape has elements.
  bool finish(std::size_t most_bytes) {
    const auto elements = graph::element_count(value_.shape);
    if (!has_type_ || !elements) return false;
    const auto count = static_cast<std::size_t>(*elements);
    if (value_.dtype == DataType::kString) {
      return data_field_ == 0 && value_.strings.size() == count;
    }
    const std::size_t each = graph::element_bytes(value_.dtype);
    if (!value_.strings.empty() || data_field_ == 0 || each == 0 || count > most_bytes / each) {
      return false;
    }
    if (data_field_ == kTensorContent) {
      // None at all stands for a list that is empty.
      return !data_.empty() && copy_bytes(data_, count * each, value_);
    }
    return data_field_ == list_of(value_.dtype) && read_list(data_, count, value_);
  }

  static constexpr std::uint64_t kMostType = 1000;
  TensorValue value_{};
  bool has_type_ = false;
  bool has_shape_ = false;
  std::uint32_t data_field_ = 0;
  std::string_view data_{};
};

// ---------------------------------------------------------------------------------- answers

// The numbers of a tensor as protobuf's varints, one after another.
template <typename T, typename Use>
void each_varint(const TensorValue& tensor, const Use& use) {
  for (std::size_t at = 0; at + sizeof(T) <= tensor.bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, tensor.bytes.data() + at, sizeof(T));
    use(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  }
}

template <typename Use>
void each_varint_of(const TensorValue& tensor, const Use& use) {
  if (tensor.dtype == DataType::kInt32) return each_varint<std::int32_t>(tensor, use);
  if (tensor.dtype == DataType::kInt64) return each_varint<std::int64_t>(tensor, use);
  each_varint<std::uint8_t>(tensor, [&](std::uint64_t value) { use(value != 0 ? 1 : 0); });
}

bool is_copied(std::uint32_t field) {
  return field == kTensorContent || field == kTensorFloats || field == kTensorDoubles;
}

std::size_t packed_bytes(const TensorValue& tensor, std::uint32_t field) {
  if (is_copied(field)) return tensor.bytes.size();
  std::size_t bytes = 0;
  each_varint_of(tensor, [&](std::uint64_t value) { bytes += varint_bytes(value); });
  return bytes;
}

std::size_t data_bytes(const TensorValue& tensor, std::uint32_t field, std::size_t packed) {
  if (field != kTensorStrings) return field_bytes(packed);
  std::size_t bytes = 0;
  for (const std::string& text : tensor.strings) bytes += field_bytes(text.size());
  return bytes;
}

void append_text(std::uint32_t field, std::string_view text, std::string& out) {
  append_header(field, text.size(), out);
  out += text;
}

void append_number(std::uint32_t field, std::int64_t value, std::string& out) {
  append_varint(tag(field, kVarint), out);
  append_varint(static_cast<std::uint64_t>(value), out);
}

std::size_t number_bytes(std::int64_t value) {
  return 1 + varint_bytes(static_cast<std::uint64_t>(value));
}

std::size_t shape_bytes(const std::vector<std::int64_t>& shape) {
  std::size_t bytes = 0;
  for (const std::int64_t size : shape) bytes += field_bytes(number_bytes(size));
  return bytes;
}

void append_shape(const std::vector<std::int64_t>& shape, std::size_t bytes, std::string& out) {
  append_header(kTensorShape, bytes, out);
  for (const std::int64_t size : shape) {
    append_header(kShapeDim, number_bytes(size), out);
    append_number(kDimSize, size, out);
  }
}

void append_data(const TensorValue& tensor, std::uint32_t field, std::size_t packed,
                 std::string& out) {
  if (field == kTensorStrings) {
    for (const std::string& text : tensor.strings) append_text(field, text, out);
    return;
  }
  append_header(field, packed, out);
  if (is_copied(field)) {
    out += tensor.bytes;
  } else {
    each_varint_of(tensor, [&](std::uint64_t value) { append_varint(value, out); });
  }
}

void append_entry(std::string_view name, std::size_t value_bytes, std::string& out) {
  append_header(kResponseOutputs, field_bytes(name.size()) + field_bytes(value_bytes), out);
  append_text(kEntryKey, name, out);
  append_header(kEntryValue, value_bytes, out);
}

}  // namespace

std::optional<FastPredict> FastPredict::parse(std::string_view bytes) {
  FastPredict made;
  try {
    if (made.read(bytes)) return made;
  } catch (const DataLoss&) {
    // No message at all: protobuf says so too.
  }
  return std::nullopt;
}

bool FastPredict::read(std::string_view bytes) {
  Reader reader(bytes, 0);
  inputs_.reserve(kUsualInputs);
  while (!reader.done()) {
    switch (reader.tag()) {
      case tag(kRequestSpec, kBytes):
        if (!model_.empty() || !read_spec(reader.bytes())) return false;
        break;
      case tag(kRequestInputs, kBytes):
        if (!read_input(reader.bytes())) return false;
        break;
      case tag(kRequestOutputFilter, kBytes):
        output_filter_.emplace_back();
        if (!take_text(reader, output_filter_.back())) return false;
        break;
      default:
        return false;
    }
  }
  // As tensors are kept: each goes to the end of those that are there.
  std::ranges::sort(inputs_);
  return !model_.empty();
}

bool FastPredict::read_spec(std::string_view bytes) {
  Reader reader(bytes, 0);
  std::string_view label;
  while (!reader.done()) {
    switch (reader.tag()) {
      case tag(kSpecName, kBytes):
        if (!take_text(reader, model_)) return false;
        break;
      case tag(kSpecVersion, kBytes): {
        std::int64_t number = 0;
        if (version_.number || !read_number(reader.bytes(), kWrappedValue, number)) return false;
        version_.number = number;
        break;
      }
      case tag(kSpecSignatureName, kBytes):
        if (!take_text(reader, signature_name_)) return false;
        break;
      case tag(kSpecVersionLabel, kBytes):
        if (!take_text(reader, label)) return false;
        break;
      default:
        return false;
    }
  }
  version_.label = label;
  return !model_.empty() && !(version_.number && !label.empty());
}

bool FastPredict::read_input(std::string_view bytes) {
  Reader reader(bytes, 0);
  std::string_view name;
  if (reader.tag() != tag(kEntryKey, kBytes) || !take_text(reader, name)) return false;
  if (reader.tag() != tag(kEntryValue, kBytes)) return false;
  inputs_.emplace_back(name, reader.bytes());
  return reader.done();
}

std::optional<Tensors> FastPredict::tensors(const graph::SignatureDef& signature,
                                            std::size_t most_tensor_bytes) const {
  // As many as there are, each one of them, none twice: all of them.
  if (inputs_.size() != signature.inputs.size()) return std::nullopt;
  try {
    Tensors made;
    made.reserve(inputs_.size());
    for (const auto& [name, bytes] : inputs_) {
      FastTensor tensor;
      if (!signature.inputs.contains(name) || !tensor.read(bytes, most_tensor_bytes) ||
          !made.emplace(name, std::move(tensor).value()).second) {
        return std::nullopt;
      }
    }
    return made;
  } catch (const DataLoss&) {
    return std::nullopt;
  }
}

PredictResponseWriter::PredictResponseWriter(const ModelVersion& version,
                                             std::string_view signature, bool raw)
    : raw_(raw) {
  const std::size_t number = number_bytes(version.number());
  append_header(
      kResponseSpec,
      field_bytes(version.model().size()) + field_bytes(number) + field_bytes(signature.size()),
      out_);
  append_text(kSpecName, version.model(), out_);
  append_header(kSpecVersion, number, out_);
  append_number(kWrappedValue, version.number(), out_);
  append_text(kSpecSignatureName, signature, out_);
}

void PredictResponseWriter::add(std::string_view name, const TensorValue& tensor) {
  const std::uint32_t field =
      raw_ && tensor.dtype != DataType::kString ? kTensorContent : list_of(tensor.dtype);
  if (field == 0) {
    muster::proto::TensorProto proto;
    write_tensor(tensor, raw_, proto);
    append_entry(name, proto.ByteSizeLong(), out_);
    proto.AppendToString(&out_);
    return;
  }
  const auto type = static_cast<std::int64_t>(tensor.dtype);
  const std::size_t shape = shape_bytes(tensor.shape);
  const std::size_t packed = field == kTensorStrings ? 0 : packed_bytes(tensor, field);
  append_entry(name, number_bytes(type) + field_bytes(shape) + data_bytes(tensor, field, packed),
               out_);
  append_number(kTensorType, type, out_);
  append_shape(tensor.shape, shape, out_);
  append_data(tensor, field, packed, out_);
}

}  // namespace muster::serving
