#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace muster::net {

/// What stands before every frame on the wire, little-endian:
///
///   0  4 bytes  "MFRM"
///   4  u16      version, 1
///   6  u16      0
///   8  u32      type
///   12 u32      bytes of the head, which follows
///   16 u64      bytes of the body, which follows the head
struct FrameHeader {
  std::uint32_t type = 0;
  std::uint32_t head_bytes = 0;
  std::uint64_t body_bytes = 0;
};

inline constexpr std::size_t kFrameHeaderBytes = 24;

/// The peer ends the stream in order. No head, no body.
inline constexpr std::uint32_t kGoodbyeType = 0xffff'ff00;

std::array<std::byte, kFrameHeaderBytes> encode(const FrameHeader& header);

/// Throws DataLoss for bytes that no muster sends.
FrameHeader decode_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes);

}  // namespace muster::net
