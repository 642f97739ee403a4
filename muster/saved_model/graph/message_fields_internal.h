#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "muster/saved_model/graph/codec_internal.h"

/// Plain fields of messages, which are named once for both reading and writing.
namespace muster::graph {

/// A field that is a member of a struct: its number, and what errors call it.
template <typename Struct, typename Value>
struct PlainField {
  std::uint32_t number;
  Value Struct::*member;
  std::string_view what{};
};

// Each reads a value of its type if the tag is that of the field, and says whether it has.
inline bool take_value(std::uint32_t tag, std::uint32_t number, std::string_view what,
                       wire::Reader& reader, Decoding& decoding, std::string& out) {
  if (tag != wire::tag(number, wire::kBytes)) return false;
  out = take_name(reader, decoding, what);
  return true;
}
inline bool take_value(std::uint32_t tag, std::uint32_t number, std::string_view what,
                       wire::Reader& reader, Decoding& decoding, std::vector<std::string>& out) {
  if (tag != wire::tag(number, wire::kBytes)) return false;
  out.push_back(take_name(reader, decoding, what));
  return true;
}
inline bool take_value(std::uint32_t tag, std::uint32_t number, std::string_view,
                       wire::Reader& reader, Decoding&, DataType& out) {
  if (tag != wire::tag(number, wire::kVarint)) return false;
  out = take_type(reader);
  return true;
}
inline bool take_value(std::uint32_t tag, std::uint32_t number, std::string_view,
                       wire::Reader& reader, Decoding&, bool& out) {
  if (tag != wire::tag(number, wire::kVarint)) return false;
  out = take_bool(reader);
  return true;
}
inline bool take_value(std::uint32_t tag, std::uint32_t number, std::string_view,
                       wire::Reader& reader, Decoding&, std::int32_t& out) {
  if (tag != wire::tag(number, wire::kVarint)) return false;
  out = take_int32(reader);
  return true;
}
inline bool take_value(std::uint32_t tag, std::uint32_t number, std::string_view,
                       wire::Reader& reader, Decoding&, float& out) {
  if (tag != wire::tag(number, wire::kFixed32)) return false;
  out = reader.fixed32_float();
  return true;
}

inline void put_value(std::uint32_t number, const std::string& value, std::string& out) {
  put_bytes(number, value, out);
}
inline void put_value(std::uint32_t number, const std::vector<std::string>& value,
                      std::string& out) {
  put_all(number, value, out);
}
inline void put_value(std::uint32_t number, DataType value, std::string& out) {
  put_type(number, value, out);
}
inline void put_value(std::uint32_t number, bool value, std::string& out) {
  put_bool(number, value, out);
}
inline void put_value(std::uint32_t number, std::int32_t value, std::string& out) {
  put_int(number, value, out);
}
inline void put_value(std::uint32_t number, float value, std::string& out) {
  put_float(number, value, out);
}

/// Reads the field of this tag if it is one of `fields`, and says whether it has: for
/// for_each_field().
template <typename Struct, typename... Values>
bool take_plain(std::uint32_t tag, wire::Reader& reader, Decoding& decoding,
                const std::tuple<PlainField<Struct, Values>...>& fields, Struct& out) {
  return std::apply(
      [&](const auto&... field) {
        return (take_value(tag, field.number, field.what, reader, decoding, out.*(field.member)) ||
                ...);
      },
      fields);
}

/// Writes the fields in the order of the list.
template <typename Struct, typename... Values>
void put_plain(const Struct& value, const std::tuple<PlainField<Struct, Values>...>& fields,
               std::string& out) {
  std::apply(
      [&](const auto&... field) { (put_value(field.number, value.*(field.member), out), ...); },
      fields);
}

/// Reads a message of plain fields alone.
template <typename Struct, typename... Values>
void decode_plain(const Message& message, std::string* extra, Decoding& decoding,
                  const std::tuple<PlainField<Struct, Values>...>& fields, Struct& out) {
  for_each_field(message, extra, [&](std::uint32_t tag, wire::Reader& reader) {
    return take_plain(tag, reader, decoding, fields, out);
  });
}

}  // namespace muster::graph
