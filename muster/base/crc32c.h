#pragma once

#include <cstdint>
#include <string_view>

namespace muster {

/// The CRC-32C (Castagnoli) of `bytes`, after bytes whose CRC-32C is `previous`:
/// crc32c(b, crc32c(a)) == crc32c(a + b). Uses the processor's instruction where there is one.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t previous = 0);

/// The same in plain C++, for processors without the instruction.
std::uint32_t crc32c_portable(std::string_view bytes, std::uint32_t previous = 0);

/// Implementation of crc32c() on this machine: "armv8-crc", "sse4.2" or "portable", with "+pmull"
/// or "+pclmul" where carry-less products join its streams.
std::string_view crc32c_implementation();

/// How TFRecord stores a checksum: the CRC of bytes that hold CRCs would be of little use, so it is
/// rotated and shifted first.
constexpr std::uint32_t mask_crc(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}
constexpr std::uint32_t unmask_crc(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace muster
