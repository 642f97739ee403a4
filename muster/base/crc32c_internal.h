#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace muster::crc32c_internal {

/// Carries a raw CRC (neither inverted before nor after) over `size` bytes.
using Extend = std::uint32_t (*)(std::uint32_t crc, const char* data, std::size_t size);

struct Hardware {
  Extend extend;
  std::string_view name;
};

/// CRC instructions of this processor; nothing where it has none. CMake picks the file that
/// defines it: crc32c_arm64.cpp, crc32c_x86_64.cpp or crc32c_no_hardware.cpp.
std::optional<Hardware> hardware();

/// Castagnoli's polynomial, bit-reversed like everything here: bit 0 is the highest power.
inline constexpr std::uint32_t kPolynomial = 0x82f63b78u;

/// The longest way that a product moves a value, in words of 8 bytes.
inline constexpr std::size_t kMaxShiftWords = 17;

/// Entry i is x^(64 i - 33) mod P, for i > 0: what the halves of a 16-byte lane are multiplied with
/// to stand as many words further on. Of the 33, one is because the product of two bit-reversed
/// numbers counts one power too few, and 32 because the factor fills the lower half of its word
/// only.
inline constexpr std::array<std::uint32_t, kMaxShiftWords + 1> kShift = [] {
  std::array<std::uint32_t, kMaxShiftWords + 1> table{};
  std::uint32_t power = 1;  // x^31
  for (std::size_t i = 1; i <= kMaxShiftWords; ++i) {
    table[i] = power;
    for (int bit = 0; bit < 64; ++bit) power = (power >> 1) ^ ((power & 1) ? kPolynomial : 0);
  }
  return table;
}();

}  // namespace muster::crc32c_internal
