#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/records/wire.h"
#include "muster/saved_model/graph/graph_def.h"

/// How the structs of graph/ are read from and written to protobuf's encoding. Reading goes
/// straight from the file's bytes into the structs, so that every limit is checked before memory is
/// taken; protobuf's own classes would be built first.
namespace muster::graph {

/// A message inside a file: its bytes and where they begin in the file.
struct Message {
  std::string_view bytes{};
  std::size_t offset = 0;
};

/// Usage of the limits by one file so far.
struct Decoding {
  const GraphLimits& limits;
  std::size_t nodes = 0;
  std::size_t functions = 0;
  std::size_t parts = 0;
  std::uint64_t repeated_bytes = 0;
  int depth = 0;
};

/// Throws ResourceExhausted when `value` is more than `limit`, which is the field `name` of
/// GraphLimits.
void check_limit(std::uint64_t value, std::uint64_t limit, std::string_view what,
                 std::string_view name);

/// Counts one more thing that takes memory of its own.
inline void count_part(Decoding& decoding) {
  check_limit(++decoding.parts, decoding.limits.parts, "the number of parts", "parts");
}

// ------------------------------------------------------------------------------------ reading

/// The message that a length-delimited field holds.
inline Message take_message(wire::Reader& reader, Decoding& decoding) {
  count_part(decoding);
  const std::string_view bytes = reader.bytes();
  return {bytes, reader.offset() - bytes.size()};
}

/// A text of at most limits.name_bytes.
std::string take_name(wire::Reader& reader, Decoding& decoding, std::string_view what);
inline std::string take_bytes(wire::Reader& reader) { return std::string(reader.bytes()); }
inline std::string take_bytes(wire::Reader& reader, Decoding& decoding) {
  count_part(decoding);
  return std::string(reader.bytes());
}
inline std::int64_t take_int(wire::Reader& reader) {
  return static_cast<std::int64_t>(reader.varint());
}
inline std::int32_t take_int32(wire::Reader& reader) {
  return static_cast<std::int32_t>(reader.varint());
}
inline bool take_bool(wire::Reader& reader) { return reader.varint() != 0; }
/// Throws DataLoss for a number that is no type.
DataType take_type(wire::Reader& reader);

/// Hands every field of a message to `field(tag, reader)`, which reads the value and returns true,
/// or returns false; a field that it does not take goes to `extra`, if there is one, as it stands.
template <typename Field>
void for_each_field(const Message& message, std::string* extra, Field&& field) {
  wire::Reader reader(message.bytes, message.offset);
  while (!reader.done()) {
    const std::size_t begin = reader.offset() - message.offset;
    const std::uint32_t tag = reader.tag();
    if (field(tag, reader)) continue;
    reader.skip(tag);
    const std::size_t end = reader.offset() - message.offset;
    if (extra != nullptr) extra->append(message.bytes.substr(begin, end - begin));
  }
}

/// The values of a packed list, one by one: `take(reader)`.
template <typename Take>
void for_each_packed(wire::Reader& reader, Decoding& decoding, Take&& take) {
  const Message list = take_message(reader, decoding);
  wire::Reader values(list.bytes, list.offset);
  while (!values.done()) take(values);
}

/// Reads a repeated number if the tag is that of the field, one value or a packed list of them:
/// `take(reader)` for each. Says whether it has.
template <typename Take>
bool take_repeated(std::uint32_t tag, std::uint32_t number, wire::Type type, wire::Reader& reader,
                   Decoding& decoding, Take&& take) {
  if (tag == wire::tag(number, type)) {
    take(reader);
    return true;
  }
  if (tag != wire::tag(number, wire::kBytes)) return false;
  for_each_packed(reader, decoding, take);
  return true;
}

/// Reads one entry of a map: `value(message)` makes the value, which replaces an older one.
template <typename Value, typename Make>
void take_entry(wire::Reader& reader, Decoding& decoding, std::string_view what,
                std::map<std::string, Value, std::less<>>& map, Make&& value) {
  std::string key;
  Message held;
  for_each_field(take_message(reader, decoding), nullptr,
                 [&](std::uint32_t tag, wire::Reader& entry) {
                   switch (tag) {
                     case wire::tag(1, wire::kBytes):
                       key = take_name(entry, decoding, what);
                       return true;
                     case wire::tag(2, wire::kBytes):
                       held = take_message(entry, decoding);
                       return true;
                     default:
                       return false;
                   }
                 });
  try {
    map.insert_or_assign(key, value(held));
  } catch (Error& error) {
    error.add_context(fmt::format("{} '{}'", what, key));
    throw;
  }
}

void decode_shape(const Message& message, Decoding& decoding, Shape& out);
void decode_tensor(const Message& message, Decoding& decoding, TensorValue& out);
void decode_op(const Message& message, Decoding& decoding, OpDef& out);
void decode_graph(const Message& message, Decoding& decoding, GraphDef& out);

// ------------------------------------------------------------------------------------ writing

// Numbers, truths and texts are omitted where they are 0, false and empty, as protobuf does.

inline void put_varint(std::uint32_t field, std::uint64_t value, std::string& out) {
  wire::append_varint(wire::tag(field, wire::kVarint), out);
  wire::append_varint(value, out);
}
inline void put_int(std::uint32_t field, std::int64_t value, std::string& out) {
  if (value != 0) put_varint(field, static_cast<std::uint64_t>(value), out);
}
inline void put_type(std::uint32_t field, DataType type, std::string& out) {
  put_int(field, static_cast<std::int64_t>(type), out);
}
inline void put_bool(std::uint32_t field, bool value, std::string& out) {
  if (value) put_varint(field, 1, out);
}
inline void put_float_always(std::uint32_t field, float value, std::string& out) {
  wire::append_varint(wire::tag(field, wire::kFixed32), out);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
inline void put_float(std::uint32_t field, float value, std::string& out) {
  if (std::bit_cast<std::uint32_t>(value) != 0) put_float_always(field, value, out);
}
/// A text or message, also when it is empty.
inline void put_bytes_always(std::uint32_t field, std::string_view bytes, std::string& out) {
  wire::append_header(field, bytes.size(), out);
  out.append(bytes);
}
inline void put_bytes(std::uint32_t field, std::string_view bytes, std::string& out) {
  if (!bytes.empty()) put_bytes_always(field, bytes, out);
}
inline void put_all(std::uint32_t field, const std::vector<std::string>& texts, std::string& out) {
  for (const std::string& text : texts) put_bytes_always(field, text, out);
}
inline void append_number(std::int64_t value, std::string& out) {
  wire::append_varint(static_cast<std::uint64_t>(value), out);
}
inline void append_float(float value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
/// A packed list, each value by `append(value, out)`; nothing for an empty one.
template <typename Values, typename Append>
void put_packed(std::uint32_t field, const Values& values, std::string& out, Append&& append) {
  std::string packed;
  for (const auto& value : values) append(value, packed);
  put_bytes(field, packed, out);
}
inline void put_entry(std::uint32_t field, std::string_view key, std::string_view value,
                      std::string& out) {
  std::string entry;
  put_bytes_always(1, key, entry);
  put_bytes_always(2, value, entry);
  put_bytes_always(field, entry, out);
}

std::string encode_shape(const Shape& shape);
std::string encode_tensor(const TensorValue& tensor);
std::string encode_op(const OpDef& op);

/// Throws InvalidArgument when the message is larger than protobuf reads.
void check_message_size(std::string_view bytes, std::string_view what);

}  // namespace muster::graph
