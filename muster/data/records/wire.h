#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "muster/base/error.h"

/// Protobuf's encoding: varints, tags, lengths.
namespace muster::wire {

static_assert(std::endian::native == std::endian::little,
              "fixed-size values are copied as they are");

enum Type : std::uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

constexpr std::uint32_t tag(std::uint32_t field, Type type) { return field << 3 | type; }

inline std::size_t varint_bytes(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

inline void append_varint(std::uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

/// Bytes of a length-delimited field with a one-byte tag.
inline std::size_t field_bytes(std::size_t payload_bytes) {
  return 1 + varint_bytes(payload_bytes) + payload_bytes;
}

/// The tag and length of a length-delimited field; the caller appends the payload.
inline void append_header(std::uint32_t field, std::size_t payload_bytes, std::string& out) {
  append_varint(tag(field, kBytes), out);
  append_varint(payload_bytes, out);
}

/// Walks over the fields of one message. Every read checks what is left and throws DataLoss with
/// the offset in the outermost message.
class Reader {
 public:
  Reader(std::string_view bytes, std::size_t offset)
      : begin_(bytes.data()), at_(begin_), end_(begin_ + bytes.size()), offset_(offset) {}

  bool done() const { return at_ == end_; }
  std::size_t offset() const { return offset_ + static_cast<std::size_t>(at_ - begin_); }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

  std::uint64_t varint() {
    if (at_ != end_ && static_cast<std::uint8_t>(*at_) < 0x80)
      return static_cast<std::uint8_t>(*at_++);
    return long_varint();
  }

  /// Field number and wire type. Throws for field 0, which does not exist.
  std::uint32_t tag() {
    const std::uint64_t value = varint();
    const auto low =
        static_cast<std::uint32_t>(value);  // protobuf reads five bytes, and drops the rest
    if (low >> 3 == 0 || value >> 35 != 0) fail("bad field tag");
    return low;
  }

  /// Takes the next byte if it is this one.
  bool accept(std::uint8_t byte) {
    if (at_ == end_ || static_cast<std::uint8_t>(*at_) != byte) return false;
    ++at_;
    return true;
  }

  /// The payload of a length-delimited field.
  std::string_view bytes() {
    const std::uint64_t length = varint();
    if (length > left()) fail_length(length);
    const std::string_view payload(at_, length);
    at_ += length;
    return payload;
  }

  float fixed32_float() {
    float value = 0;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }

  std::uint64_t fixed64() {
    std::uint64_t value = 0;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }

  /// Passes over the value of a field that was not asked for.
  void skip(std::uint32_t tag_of_field, int depth = 0);

  [[noreturn]] void fail(std::string_view what) const;

 private:
  std::uint64_t long_varint();
  const char* take(std::size_t count);
  [[noreturn]] void fail_length(std::uint64_t length) const;

  const char* begin_;
  const char* at_;
  const char* end_;
  std::size_t offset_;
};

}  // namespace muster::wire
