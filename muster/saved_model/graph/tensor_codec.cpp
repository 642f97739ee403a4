// TensorProto and TensorShapeProto.
#include <cstring>
#include <optional>

#include "muster/saved_model/graph/codec_internal.h"

namespace muster::graph {
namespace {

using wire::kBytes;
using wire::kFixed32;
using wire::kFixed64;
using wire::kVarint;
using wire::tag;

constexpr std::uint32_t kContentField = 4;
constexpr std::uint32_t kStringField = 8;
constexpr std::uint32_t kFloat8Field = 18;

// The list of a TensorProto that holds the values of a type: its number, how each of its entries
// stands in the file, and how many bytes of the element an entry makes.
struct ValueList {
  std::uint32_t field;
  wire::Type wire_type;
  std::size_t bytes;
};

std::optional<ValueList> value_list_of(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return ValueList{5, kFixed32, 4};
    case DataType::kDouble:
      return ValueList{6, kFixed64, 8};
    case DataType::kComplex64:
      return ValueList{9, kFixed32, 4};
    case DataType::kComplex128:
      return ValueList{12, kFixed64, 8};
    case DataType::kInt64:
      return ValueList{10, kVarint, 8};
    case DataType::kBool:
      return ValueList{11, kVarint, 1};
    case DataType::kHalf:
    case DataType::kBfloat16:
      return ValueList{13, kVarint, 2};
    case DataType::kUint32:
      return ValueList{16, kVarint, 4};
    case DataType::kUint64:
      return ValueList{17, kVarint, 8};
    case DataType::kFloat8E5m2:
    case DataType::kFloat8E4m3fn:
    case DataType::kFloat8E4m3fnuz:
    case DataType::kFloat8E4m3b11fnuz:
    case DataType::kFloat8E5m2fnuz:
      return ValueList{kFloat8Field, kBytes, 1};
    default:
      if (element_bytes(type) == 0) return std::nullopt;
      return ValueList{7, kVarint, element_bytes(type)};
  }
}

// Fields of a TensorProto that are read before its values.
struct TensorHead {
  DataType type = DataType::kInvalid;
  Shape shape{};
  std::string_view content{};
};

TensorHead read_head(const Message& message, Decoding& decoding) {
  TensorHead head;
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kVarint):
        head.type = take_type(reader);
        return true;
      case tag(2, kBytes):
        decode_shape(take_message(reader, decoding), decoding, head.shape);
        return true;
      case tag(kContentField, kBytes):
        head.content = reader.bytes();
        return true;
      default:
        return false;
    }
  });
  return head;
}

std::uint64_t take_entry_of(wire::Reader& reader, wire::Type type) {
  if (type == kFixed64) return reader.fixed64();
  if (type == kFixed32) return std::bit_cast<std::uint32_t>(reader.fixed32_float());
  return reader.varint();
}

// All entries of the list, each cut to its bytes, no more than `most` bytes.
std::string read_list(const Message& message, const ValueList& list, std::uint64_t most,
                      Decoding& decoding) {
  std::string bytes;
  const auto add = [&](wire::Reader& reader) {
    std::uint64_t value = take_entry_of(reader, list.wire_type);
    if (bytes.size() + list.bytes > most) reader.fail("more values than the shape has elements");
    if (list.field == 11) value = value != 0 ? 1 : 0;
    bytes.append(reinterpret_cast<const char*>(&value), list.bytes);
  };
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    if (list.wire_type == kBytes) {
      if (field != tag(list.field, kBytes)) return false;
      const std::string_view run = reader.bytes();
      if (run.size() > most) reader.fail("more values than the shape has elements");
      bytes = run;
    } else if (field == tag(list.field, list.wire_type)) {
      add(reader);
    } else if (field == tag(list.field, kBytes)) {
      for_each_packed(reader, decoding, add);
    } else {
      return false;
    }
    return true;
  });
  return bytes;
}

void take_repeated(Decoding& decoding, std::uint64_t bytes) {
  check_limit(bytes, decoding.limits.repeated_bytes - decoding.repeated_bytes,
              "the size of repeated values", "repeated_bytes");
  decoding.repeated_bytes += bytes;
}

// A list that is too short continues with its last value, an empty one is zero.
void fill_up(std::string& bytes, std::size_t element, std::uint64_t total, Decoding& decoding) {
  if (bytes.size() % element != 0) throw DataLoss("half a complex number at the end of the values");
  if (bytes.size() == total) return;
  take_repeated(decoding, total - bytes.size());
  const std::string last =
      bytes.empty() ? std::string(element, '\0') : bytes.substr(bytes.size() - element);
  bytes.reserve(total);
  while (bytes.size() < total) bytes.append(last);
}

void read_numbers(const Message& message, const TensorHead& head, std::uint64_t count,
                  Decoding& decoding, TensorValue& out) {
  const std::size_t element = element_bytes(head.type);
  check_limit(count, decoding.limits.tensor_bytes / element, "the number of elements",
              "tensor_bytes");
  const std::uint64_t total = count * element;
  if (!head.content.empty()) {
    if (head.content.size() != total) {
      throw DataLoss("tensor_content of {} bytes where type {} and shape {} ask for {}",
                     head.content.size(), name_of(head.type), to_string(head.shape), total);
    }
    out.bytes = head.content;
    return;
  }
  if (count == 0) return;
  out.bytes = read_list(message, *value_list_of(head.type), total, decoding);
  fill_up(out.bytes, element, total, decoding);
}

void read_strings(const Message& message, std::uint64_t count, Decoding& decoding,
                  TensorValue& out) {
  check_limit(count, decoding.limits.tensor_bytes / sizeof(std::string), "the number of elements",
              "tensor_bytes");
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    if (field != tag(kStringField, kBytes)) return false;
    if (out.strings.size() == count) reader.fail("more values than the shape has elements");
    out.strings.push_back(take_bytes(reader, decoding));
    return true;
  });
  if (out.strings.size() == count) return;
  const std::string last = out.strings.empty() ? std::string() : out.strings.back();
  const std::uint64_t missing = count - out.strings.size();
  const std::uint64_t each = sizeof(std::string) + last.size();
  check_limit(missing, decoding.limits.repeated_bytes / each, "the number of repeated values",
              "repeated_bytes");
  take_repeated(decoding, missing * each);
  out.strings.resize(count, last);
}

bool all_equal(std::string_view bytes, std::size_t element) {
  return bytes.size() > element &&
         std::memcmp(bytes.data(), bytes.data() + element, bytes.size() - element) == 0;
}

void put_list(std::string_view element, DataType type, std::string& out) {
  const ValueList list = *value_list_of(type);
  if (list.wire_type == kBytes) return put_bytes_always(list.field, element, out);
  const bool is_signed = type == DataType::kInt8 || type == DataType::kInt16 ||
                         type == DataType::kInt32 || type == DataType::kQint8 ||
                         type == DataType::kQint16 || type == DataType::kQint32 ||
                         type == DataType::kInt4 || type == DataType::kInt2;
  std::string packed;
  for (std::size_t at = 0; at < element.size(); at += list.bytes) {
    if (list.wire_type != kVarint) {
      packed.append(element.substr(at, list.bytes));
      continue;
    }
    std::uint64_t value = 0;
    std::memcpy(&value, element.data() + at, list.bytes);
    const auto unused = static_cast<int>(64 - 8 * list.bytes);
    if (is_signed)
      value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
    wire::append_varint(value, packed);
  }
  put_bytes_always(list.field, packed, out);
}

}  // namespace

void decode_shape(const Message& message, Decoding& decoding, Shape& out) {
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(2, kBytes): {
        check_limit(out.dims.size() + 1, decoding.limits.rank, "the rank of a shape", "rank");
        std::int64_t size = 0;
        for_each_field(take_message(reader, decoding), nullptr,
                       [&](std::uint32_t inner, wire::Reader& dim) {
                         if (inner != tag(1, kVarint)) return false;
                         size = take_int(dim);
                         if (size < -1) dim.fail("a dimension below -1");
                         return true;
                       });
        out.dims.push_back(size);
        return true;
      }
      case tag(3, kVarint):
        out.unknown_rank = take_bool(reader);
        return true;
      default:
        return false;
    }
  });
  if (out.unknown_rank && !out.dims.empty())
    throw DataLoss("a shape of unknown rank has dimensions");
}

void decode_tensor(const Message& message, Decoding& decoding, TensorValue& out) {
  check_limit(message.bytes.size(), decoding.limits.tensor_bytes, "the size of a constant",
              "tensor_bytes");
  const TensorHead head = read_head(message, decoding);
  out = TensorValue{head.type, head.shape.dims};
  const std::optional<std::int64_t> count = element_count(out.shape);
  if (!count || head.shape.unknown_rank) {
    throw DataLoss("a constant cannot have the shape {}", to_string(head.shape));
  }
  const auto elements = static_cast<std::uint64_t>(*count);
  if (head.type == DataType::kString) {
    read_strings(message, elements, decoding, out);
  } else if (element_bytes(head.type) != 0) {
    read_numbers(message, head, elements, decoding, out);
  } else if (head.type == DataType::kResource || head.type == DataType::kVariant) {
    out.opaque = message.bytes;
  } else {
    throw DataLoss("a constant cannot be of type {}", name_of(head.type));
  }
}

std::string encode_shape(const Shape& shape) {
  std::string out;
  for (const std::int64_t size : shape.dims) {
    std::string dim;
    put_int(1, size, dim);
    put_bytes_always(2, dim, out);
  }
  put_bool(3, shape.unknown_rank, out);
  return out;
}

// One element is spelt in the list of its type, as TensorFlow does it, and so are equal ones where
// that saves much: OpenCV does not read it. Others are raw bytes.
std::string encode_tensor(const TensorValue& tensor) {
  if (!tensor.opaque.empty()) return tensor.opaque;
  tensor.check();
  std::string out;
  put_type(1, tensor.dtype, out);
  put_bytes_always(2, encode_shape(Shape(tensor.shape)), out);
  if (tensor.dtype == DataType::kString) {
    put_all(kStringField, tensor.strings, out);
    return out;
  }
  const std::size_t element = element_bytes(tensor.dtype);
  constexpr std::size_t kMuch = std::size_t{1} << 16;
  if (tensor.bytes.size() == element ||
      (tensor.bytes.size() >= kMuch && all_equal(tensor.bytes, element))) {
    put_list(std::string_view(tensor.bytes).substr(0, element), tensor.dtype, out);
  } else {
    put_bytes(kContentField, tensor.bytes, out);
  }
  return out;
}

}  // namespace muster::graph
