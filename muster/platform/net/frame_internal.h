#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace muster::net {

/// The prefix of every frame on the wire, little-endian:
///
///   0  4 bytes  "MFRM"
///   4  u16      version, 1
///   6  u16      0
///   8  u32      type
///   12 u32      bytes of the header, which follows
///   16 u64      bytes of the body, which follows the header
struct FramePrefix {
  std::uint32_t type = 0;
  std::uint32_t header_bytes = 0;
  std::uint64_t body_bytes = 0;
};

inline constexpr std::size_t kFramePrefixBytes = 24;

/// The peer ends the stream in order. No header, no body.
inline constexpr std::uint32_t kGoodbyeType = 0xffff'ff00;

std::array<std::byte, kFramePrefixBytes> encode(const FramePrefix& prefix);

/// Throws DataLoss for bytes that no muster sends.
FramePrefix decode_frame_prefix(std::span<const std::byte, kFramePrefixBytes> bytes);

}  // namespace muster::net
