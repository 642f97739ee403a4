#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "muster/base/random.h"
#include "muster/base/sha256.h"

namespace muster::testing {

/// Fails, with the SHA-256 that was found, where bytes are others than those whose SHA-256 was
/// kept. Tests run on x86-64 and, by scripts/arm64, on arm64: where results are floats that may
/// differ between the two, hashes for both stand side by side in the test.
inline void expect_golden(std::string_view bytes, std::string_view kept, std::string_view what) {
  EXPECT_EQ(sha256_hex(bytes), kept) << what;
}

/// Numbers between -0.5 and 0.5, by no function of libtorch or of the C library, which may have
/// other bits on other processors.
inline void fill_with_noise(std::span<float> values, std::uint64_t seed) {
  Random random(seed);
  for (float& value : values) value = static_cast<float>(random.uniform()) - 0.5F;
}

template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  static_assert(std::is_arithmetic_v<T>);
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace muster::testing
