#include <cpuid.h>
#include <nmmintrin.h>
#include <wmmintrin.h>

#include "muster/records/crc32c_internal.h"

// The file is built for any x86-64; these functions for the extensions, and they are only called
// where the processor says that it has them.
#define MUSTER_TARGET_CRC __attribute__((target("sse4.2")))
#define MUSTER_TARGET_CRC_PCLMUL __attribute__((target("sse4.2,pclmul")))

namespace muster::crc32c_internal {
namespace {

MUSTER_TARGET_CRC inline std::uint32_t take8(std::uint32_t crc, const char* data) {
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, load<std::uint64_t>(data)));
}

MUSTER_TARGET_CRC inline std::uint32_t extend_words(std::uint32_t crc, const char* data,
                                                    std::size_t size) {
  for (; size >= 8; data += 8, size -= 8) crc = take8(crc, data);
  if (size & 4) {
    crc = _mm_crc32_u32(crc, load<std::uint32_t>(data));
    data += 4;
  }
  if (size & 2) {
    crc = _mm_crc32_u16(crc, load<std::uint16_t>(data));
    data += 2;
  }
  if (size & 1) crc = _mm_crc32_u8(crc, load<std::uint8_t>(data));
  return crc;
}

MUSTER_TARGET_CRC std::uint32_t extend_crc(std::uint32_t crc, const char* data, std::size_t size) {
  return extend_words(crc, data, size);
}

MUSTER_TARGET_CRC_PCLMUL inline __m128i load_lane(const char* data) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

/// What `lane` (16 bytes) amounts to when moved on by as many words as the factors stand for.
MUSTER_TARGET_CRC_PCLMUL inline __m128i fold(__m128i lane, __m128i factors) {
  return _mm_xor_si128(_mm_clmulepi64_si128(lane, factors, 0x00),
                       _mm_clmulepi64_si128(lane, factors, 0x11));
}

MUSTER_TARGET_CRC_PCLMUL inline __m128i factors_for(std::size_t words) {
  return _mm_set_epi64x(kShift[words], kShift[words + 1]);
}

// Eight lanes of 16 bytes, each folded over the other seven a round: enough to hide the latency of
// the product. From memory this is bound by waiting, so lines are asked for some way ahead; records
// lie one behind the other, and asking beyond the end of a mapping does no harm. (Measured: 7.4
// GB/s without, 11.5 with, where three streams of the CRC instruction made 6.5 and memcpy 10.)
constexpr std::size_t kLanes = 8;
constexpr std::size_t kLaneBytes = 16;
constexpr std::size_t kRoundBytes = kLanes * kLaneBytes;
constexpr std::size_t kAheadBytes = 4096;

MUSTER_TARGET_CRC_PCLMUL inline std::uint32_t extend_rounds(std::uint32_t crc, const char* data,
                                                            std::size_t rounds) {
  __m128i lanes[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = load_lane(data + kLaneBytes * i);
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi64_si128(crc));
  const __m128i factors = factors_for(kRoundBytes / 8);
  for (std::size_t round = 1; round < rounds; ++round) {
    data += kRoundBytes;
    __builtin_prefetch(data + kAheadBytes);
    __builtin_prefetch(data + kAheadBytes + 64);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kLanes; ++i) {
      lanes[i] = _mm_xor_si128(fold(lanes[i], factors), load_lane(data + kLaneBytes * i));
    }
  }
  __m128i sum = lanes[kLanes - 1];
#pragma GCC unroll 8
  for (std::size_t i = 0; i + 1 < kLanes; ++i) {
    sum = _mm_xor_si128(sum, fold(lanes[i], factors_for(2 * (kLanes - 1 - i))));
  }
  const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(sum));
  const auto high = static_cast<std::uint64_t>(_mm_extract_epi64(sum, 1));
  return static_cast<std::uint32_t>(_mm_crc32_u64(_mm_crc32_u64(0, low), high));
}

MUSTER_TARGET_CRC_PCLMUL std::uint32_t extend_crc_pclmul(std::uint32_t crc, const char* data,
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

std::optional<Hardware> hardware() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_SSE4_2) == 0) return std::nullopt;
  if ((ecx & bit_PCLMUL) == 0) return Hardware{extend_crc, "sse4.2"};
  return Hardware{extend_crc_pclmul, "sse4.2+pclmul"};
}

}  // namespace muster::crc32c_internal
