#pragma once

/// The checksum of a record by a processor's CRC instruction and carry-less products, as far as
/// processors are alike. Included once, by the file of a processor, after it has defined
///
///   MUSTER_TARGET_CRC, MUSTER_TARGET_FOLD   what its functions are compiled for: the instruction,
///                                           and the instruction with the products
///   crc_of(crc, word)                       the instruction, for words of 8, 16, 32 and 64 bits
///   Lane, Factors                           16 bytes, and what moves them on
///   load_lane, lane_of, plus, fold          a lane of memory, of a CRC; the sum of two; one moved
///   factors_for(words)                      on by as many words as the factors stand for
///   low_word, high_word                     the halves of a lane
///   kPrefetchBytes                          how far ahead memory is asked for; 0 for not at all
///
/// in an unnamed namespace of muster::crc32c_internal.

#include "muster/base/crc32c_internal.h"
#include "muster/base/unaligned.h"

namespace muster::crc32c_internal {
namespace {

MUSTER_TARGET_CRC inline std::uint32_t extend_words(std::uint32_t crc, const char* data,
                                                    std::size_t size) {
  for (; size >= 8; data += 8, size -= 8) crc = crc_of(crc, load_unaligned<std::uint64_t>(data));
  if (size & 4) {
    crc = crc_of(crc, load_unaligned<std::uint32_t>(data));
    data += 4;
  }
  if (size & 2) {
    crc = crc_of(crc, load_unaligned<std::uint16_t>(data));
    data += 2;
  }
  if (size & 1) crc = crc_of(crc, load_unaligned<std::uint8_t>(data));
  return crc;
}

MUSTER_TARGET_CRC std::uint32_t extend_crc(std::uint32_t crc, const char* data, std::size_t size) {
  return extend_words(crc, data, size);
}

// Eight lanes of 16 bytes, each folded over the other seven a round: enough to hide the latency of
// the product. All lanes walk through memory side by side.
constexpr std::size_t kLanes = 8;
constexpr std::size_t kLaneBytes = 16;
constexpr std::size_t kRoundBytes = kLanes * kLaneBytes;

MUSTER_TARGET_FOLD inline std::uint32_t extend_rounds(std::uint32_t crc, const char* data,
                                                      std::size_t rounds) {
  Lane lanes[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = load_lane(data + kLaneBytes * i);
  lanes[0] = plus(lanes[0], lane_of(crc));
  const Factors factors = factors_for(kRoundBytes / 8);
  for (std::size_t round = 1; round < rounds; ++round) {
    data += kRoundBytes;
    if constexpr (kPrefetchBytes > 0) {
      __builtin_prefetch(data + kPrefetchBytes);
      __builtin_prefetch(data + kPrefetchBytes + 64);
    }
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kLanes; ++i) {
      lanes[i] = plus(fold(lanes[i], factors), load_lane(data + kLaneBytes * i));
    }
  }
  Lane sum = lanes[kLanes - 1];
#pragma GCC unroll 8
  for (std::size_t i = 0; i + 1 < kLanes; ++i) {
    sum = plus(sum, fold(lanes[i], factors_for(2 * (kLanes - 1 - i))));
  }
  return crc_of(crc_of(0, low_word(sum)), high_word(sum));
}

MUSTER_TARGET_FOLD std::uint32_t extend_folded(std::uint32_t crc, const char* data,
                                               std::size_t size) {
  // Joining the lanes costs as much as some hundred bytes through the CRC instruction.
  if (size >= 2 * kRoundBytes) {
    const std::size_t rounds = size / kRoundBytes;
    crc = extend_rounds(crc, data, rounds);
    data += rounds * kRoundBytes;
    size -= rounds * kRoundBytes;
  }
  return extend_words(crc, data, size);
}

}  // namespace
}  // namespace muster::crc32c_internal
