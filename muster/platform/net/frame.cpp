#include "muster/platform/net/frame_internal.h"

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

std::array<std::byte, kFramePrefixBytes> encode(const FramePrefix& prefix) {
  std::array<std::byte, kFramePrefixBytes> bytes{};
  for (std::size_t i = 0; i < kFrameMagic.size(); ++i)
    bytes[i] = static_cast<std::byte>(kFrameMagic[i]);
  store<std::uint16_t>(bytes.data() + 4, kVersion);
  store(bytes.data() + 8, prefix.type);
  store(bytes.data() + 12, prefix.header_bytes);
  store(bytes.data() + 16, prefix.body_bytes);
  return bytes;
}

FramePrefix decode_frame_prefix(std::span<const std::byte, kFramePrefixBytes> bytes) {
  const std::string_view magic(reinterpret_cast<const char*>(bytes.data()), kFrameMagic.size());
  if (magic != kFrameMagic) throw DataLoss("bytes that are no frame: it begins with no MFRM");
  const auto version = load<std::uint16_t>(bytes.data() + 4);
  if (version != kVersion || load<std::uint16_t>(bytes.data() + 6) != 0) {
    throw DataLoss("a frame of version {}, where {} is known", version, kVersion);
  }
  const FramePrefix prefix{.type = load<std::uint32_t>(bytes.data() + 8),
                           .header_bytes = load<std::uint32_t>(bytes.data() + 12),
                           .body_bytes = load<std::uint64_t>(bytes.data() + 16)};
  const bool empty = prefix.header_bytes == 0 && prefix.body_bytes == 0;
  if (prefix.type >= kGoodbyeType && (prefix.type != kGoodbyeType || !empty)) {
    throw DataLoss("a frame of the unknown type {:#x}", prefix.type);
  }
  return prefix;
}

}  // namespace muster::net
