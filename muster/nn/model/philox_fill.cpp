#include "muster/nn/model/philox_fill.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "muster/base/random.h"

namespace muster {
namespace {

// As many blocks as fill vector registers well; every loop over lanes is one the compiler
// vectorises.
constexpr std::size_t kLanes = 16;
constexpr std::size_t kWordsInBlock = 4;

struct Lanes {
  alignas(64) std::array<std::uint32_t, kLanes> c0, c1, c2, c3;
};

// base/random.cpp has the same rounds for one block; a test holds the two together.
void philox_lanes(std::uint64_t key, Lanes& lanes) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * lanes.c0[i];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * lanes.c2[i];
      lanes.c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ lanes.c1[i] ^ k0;
      lanes.c1[i] = static_cast<std::uint32_t>(p1);
      lanes.c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ lanes.c3[i] ^ k1;
      lanes.c3[i] = static_cast<std::uint32_t>(p0);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

void fill_lanes(std::uint64_t key, std::uint64_t block, std::uint32_t* out) {
  Lanes lanes;
  for (std::size_t i = 0; i < kLanes; ++i) {
    lanes.c0[i] = static_cast<std::uint32_t>(block + i);
    lanes.c1[i] = static_cast<std::uint32_t>((block + i) >> 32);
    lanes.c2[i] = 0;
    lanes.c3[i] = 0;
  }
  philox_lanes(key, lanes);
  for (std::size_t i = 0; i < kLanes; ++i) {
    out[kWordsInBlock * i] = lanes.c0[i];
    out[kWordsInBlock * i + 1] = lanes.c1[i];
    out[kWordsInBlock * i + 2] = lanes.c2[i];
    out[kWordsInBlock * i + 3] = lanes.c3[i];
  }
}

}  // namespace

void philox_fill(std::uint64_t key, std::uint64_t first_block, std::span<std::uint32_t> out) {
  constexpr std::size_t kWords = kLanes * kWordsInBlock;
  std::size_t done = 0;
  for (; done + kWords <= out.size(); done += kWords) {
    fill_lanes(key, first_block + done / kWordsInBlock, out.data() + done);
  }
  for (; done < out.size(); done += kWordsInBlock) {
    const auto words = philox(key, first_block + done / kWordsInBlock, 0);
    std::copy_n(words.begin(), std::min(kWordsInBlock, out.size() - done), out.data() + done);
  }
}

}  // namespace muster
