#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

/// The SHA-256 (FIPS 180-4) of bytes that come in pieces. Copying it copies the state.
class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  void update(std::string_view bytes);
  /// The digest of everything so far; more may follow.
  Digest digest() const;
  /// The same as 64 hexadecimal letters.
  std::string hex_digest() const;

 private:
  void take_block(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> pending_{};
  std::uint64_t total_bytes_ = 0;
};

/// The SHA-256 of some bytes as 64 hexadecimal letters.
std::string sha256_hex(std::string_view bytes);

}  // namespace muster
