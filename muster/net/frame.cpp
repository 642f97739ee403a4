#include "muster/net/frame_internal.h"

#include <string_view>

#include "muster/base/error.h"

namespace muster::net {
namespace {

constexpr std::string_view kFrameMagic = "MFRM";
constexpr std::uint16_t kVersion = 1;

template <typename Number>
void store(std::byte* to, Number value) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

template <typename Number>
Number load(const std::byte* from) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    value = static_cast<Number>(value | static_cast<Number>(from[i]) << (8 * i));
  }
  return value;
}

}  // namespace

std::array<std::byte, kFrameHeaderBytes> encode(const FrameHeader& header) {
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  for (std::size_t i = 0; i < kFrameMagic.size(); ++i)
    bytes[i] = static_cast<std::byte>(kFrameMagic[i]);
  store<std::uint16_t>(bytes.data() + 4, kVersion);
  store(bytes.data() + 8, header.type);
  store(bytes.data() + 12, header.head_bytes);
  store(bytes.data() + 16, header.body_bytes);
  return bytes;
}

FrameHeader decode_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const std::string_view magic(reinterpret_cast<const char*>(bytes.data()), kFrameMagic.size());
  if (magic != kFrameMagic) throw DataLoss("bytes that are no frame: it begins with no MFRM");
  const auto version = load<std::uint16_t>(bytes.data() + 4);
  if (version != kVersion || load<std::uint16_t>(bytes.data() + 6) != 0) {
    throw DataLoss("a frame of version {}, where {} is known", version, kVersion);
  }
  const FrameHeader header{.type = load<std::uint32_t>(bytes.data() + 8),
                           .head_bytes = load<std::uint32_t>(bytes.data() + 12),
                           .body_bytes = load<std::uint64_t>(bytes.data() + 16)};
  const bool empty = header.head_bytes == 0 && header.body_bytes == 0;
  if (header.type >= kGoodbyeType && (header.type != kGoodbyeType || !empty)) {
    throw DataLoss("a frame of the unknown type {:#x}", header.type);
  }
  return header;
}

}  // namespace muster::net
