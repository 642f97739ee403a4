#pragma once

#include <cstdint>
#include <string_view>

namespace muster {

/// FarmHash's fingerprint of some bytes: frozen for ever, the same on every machine, and the one
/// that TensorFlow's feature columns use.
std::uint64_t fingerprint64(std::string_view bytes);
/// That of the number's decimal text.
std::uint64_t fingerprint64(std::int64_t number);

/// Joins two fingerprints, or a fingerprint and an id, into one. The order matters.
constexpr std::uint64_t concatenate_fingerprints(std::uint64_t first, std::uint64_t second) {
  constexpr std::uint64_t kMultiplier = 0xc6a4a7935bd1e995;
  const auto mix = [](std::uint64_t value) { return value ^ (value >> 47); };
  std::uint64_t joined = first ^ kMultiplier;
  joined ^= mix(second * kMultiplier) * kMultiplier;
  joined *= kMultiplier;
  joined = mix(joined) * kMultiplier;
  return mix(joined);
}

}  // namespace muster
