#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace muster {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

/// The caller has checked that the bytes are there.
inline std::uint32_t load_u32(std::string_view bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}
inline std::uint64_t load_u64(std::string_view bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// The bytes of a number as they stand in a file.
template <typename T>
std::string_view bytes_of(const T& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

inline void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

/// Takes a varint off the front. False, with `bytes` anywhere, when there is none of at most 64
/// bits.
inline bool take_varint(std::string_view& bytes, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (shift == 63 && byte > 1) return false;
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace muster
