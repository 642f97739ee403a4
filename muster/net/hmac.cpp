#include "muster/net/hmac_internal.h"

#include <array>
#include <cstring>

namespace muster::net {
namespace {

constexpr std::size_t kBlockBytes = 64;
using Block = std::array<char, kBlockBytes>;

std::string_view bytes_of(const Sha256::Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Sha256::Digest hash_of(std::string_view first, std::string_view second) {
  Sha256 hash;
  hash.update(first);
  hash.update(second);
  return hash.digest();
}

Block key_block(std::string_view key) {
  Block block{};
  if (key.size() <= kBlockBytes) {
    if (!key.empty()) std::memcpy(block.data(), key.data(), key.size());
  } else {
    const auto digest = hash_of(key, {});
    std::memcpy(block.data(), digest.data(), digest.size());
  }
  return block;
}

Block padded(Block block, unsigned char pad) {
  for (char& byte : block) byte = static_cast<char>(static_cast<unsigned char>(byte) ^ pad);
  return block;
}

}  // namespace

Sha256::Digest hmac_sha256(std::string_view key, std::string_view message) {
  const Block block = key_block(key);
  const Block inner = padded(block, 0x36);
  const Block outer = padded(block, 0x5c);
  const auto inside = hash_of({inner.data(), inner.size()}, message);
  return hash_of({outer.data(), outer.size()}, bytes_of(inside));
}

bool same_digest(const Sha256::Digest& a, const Sha256::Digest& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace muster::net
