#include <array>
#include <bit>
#include <cstddef>

#include "muster/data/checkpoint/ordered_code_internal.h"

namespace muster {
namespace {

constexpr std::size_t kLongestSigned = 10;

// How many bytes of 7 bits hold the value and its sign.
std::size_t signed_length(std::int64_t value) {
  const auto magnitude = static_cast<std::uint64_t>(value < 0 ? ~value : value);
  const auto bits = static_cast<std::size_t>(std::bit_width(magnitude)) + 1;
  return (bits + 6) / 7;
}

}  // namespace

void append_ordered_number(std::string& out, std::uint64_t value) {
  const int bytes = (std::bit_width(value) + 7) / 8;
  out.push_back(static_cast<char>(bytes));
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void append_ordered_signed(std::string& out, std::int64_t value) {
  // Two's complement, big-endian, with room for the sign before the 8 bytes.
  std::array<unsigned char, kLongestSigned> buffer{};
  buffer[0] = buffer[1] = value < 0 ? 0xff : 0x00;
  for (std::size_t i = 0; i < 8; ++i) {
    buffer[2 + i] = static_cast<unsigned char>(static_cast<std::uint64_t>(value) >> (8 * (7 - i)));
  }
  // As many leading ones as there are bytes, over the copies of the sign in front of the value.
  const std::size_t length = signed_length(value);
  unsigned char* const begin = buffer.data() + (kLongestSigned - length);
  const unsigned head = 0xffffu << (16 - length);
  begin[0] ^= static_cast<unsigned char>(head >> 8);
  if (length > 1) begin[1] ^= static_cast<unsigned char>(head);
  out.append(reinterpret_cast<const char*>(begin), length);
}

void append_ordered_string(std::string& out, std::string_view value) {
  for (const char c : value) {
    out.push_back(c);
    if (c == '\0') out.push_back('\xff');
    if (c == '\xff') out.push_back('\0');
  }
  out.push_back('\0');
  out.push_back('\x01');
}

}  // namespace muster
