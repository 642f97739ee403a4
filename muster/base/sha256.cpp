#include "muster/base/sha256.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace muster {
namespace {

constexpr std::size_t kBlockBytes = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load_big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

void store_big_endian(std::uint8_t* bytes, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i)
    bytes[i] = static_cast<std::uint8_t>(value >> (8 * (size - 1 - i)));
}

std::array<std::uint32_t, 64> message_schedule(const std::uint8_t* block) {
  std::array<std::uint32_t, 64> words;
  for (std::size_t t = 0; t < 16; ++t) words[t] = load_big_endian(block + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t a = words[t - 15];
    const std::uint32_t b = words[t - 2];
    const std::uint32_t small_sigma_0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3);
    const std::uint32_t small_sigma_1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10);
    words[t] = words[t - 16] + small_sigma_0 + words[t - 7] + small_sigma_1;
  }
  return words;
}

}  // namespace

void Sha256::take_block(const std::uint8_t* block) {
  const auto words = message_schedule(block);
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t big_sigma_1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t first = h + big_sigma_1 + choice + kRoundConstants[t] + words[t];
    const std::uint32_t big_sigma_0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + big_sigma_0 + majority;
  }
  const std::array<std::uint32_t, 8> change = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += change[i];
}

void Sha256::update(std::string_view bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::size_t left = bytes.size();
  std::size_t filled = total_bytes_ % kBlockBytes;
  total_bytes_ += left;
  while (left > 0) {
    if (filled == 0 && left >= kBlockBytes) {
      take_block(data);
      data += kBlockBytes;
      left -= kBlockBytes;
      continue;
    }
    const std::size_t count = std::min(left, kBlockBytes - filled);
    std::memcpy(pending_.data() + filled, data, count);
    data += count;
    left -= count;
    filled += count;
    if (filled < kBlockBytes) return;
    take_block(pending_.data());
    filled = 0;
  }
}

Sha256::Digest Sha256::digest() const {
  Sha256 last = *this;
  // A one bit, zeros up to the last eight bytes of a block, and there the length in bits.
  std::array<std::uint8_t, 2 * kBlockBytes> padding{0x80};
  const std::size_t filled = total_bytes_ % kBlockBytes;
  const std::size_t size = (filled < 56 ? 56 : 56 + kBlockBytes) - filled;
  store_big_endian(padding.data() + size, total_bytes_ * 8, 8);
  last.update({reinterpret_cast<const char*>(padding.data()), size + 8});
  Digest result;
  for (std::size_t i = 0; i < 8; ++i) store_big_endian(result.data() + 4 * i, last.state_[i], 4);
  return result;
}

std::string Sha256::hex_digest() const {
  std::string hex;
  for (const std::uint8_t byte : digest()) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex_digest();
}

}  // namespace muster
