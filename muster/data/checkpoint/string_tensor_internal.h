#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// How a bundle stores a string tensor: the lengths as varints, their masked CRC-32C, the strings.
struct StringTensorHead {
  /// Everything before the strings themselves.
  std::string bytes;
  /// The checksum so far; the strings' bytes continue it.
  std::uint32_t crc = 0;
};
StringTensorHead string_tensor_head(std::span<const std::string_view> strings);

/// Takes `count` strings out of stored bytes, and checks them against the entry's checksum. The
/// views borrow from `bytes`. Throws DataLoss.
std::vector<std::string_view> parse_string_tensor(std::string_view bytes, std::uint64_t count,
                                                  std::uint32_t masked_crc);

}  // namespace muster
