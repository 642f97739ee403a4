#include <arm_acle.h>
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "muster/records/crc32c_internal.h"

// The file is built for any ARMv8; these functions for the extensions, and they are only called
// where the kernel says that the processor has them.
#if defined(__clang__)
// Its arm_acle.h shows these only when the whole file is built for the extension.
#define __crc32cb __builtin_arm_crc32cb
#define __crc32ch __builtin_arm_crc32ch
#define __crc32cw __builtin_arm_crc32cw
#define __crc32cd __builtin_arm_crc32cd
#define MUSTER_TARGET_CRC __attribute__((target("crc")))
#define MUSTER_TARGET_CRC_PMULL __attribute__((target("crc,aes")))
#else
#define MUSTER_TARGET_CRC __attribute__((target("arch=armv8-a+crc")))
#define MUSTER_TARGET_CRC_PMULL __attribute__((target("arch=armv8-a+crc+crypto")))
#endif

namespace muster::crc32c_internal {
namespace {

MUSTER_TARGET_CRC inline std::uint32_t extend_words(std::uint32_t crc, const char* data,
                                                    std::size_t size) {
  for (; size >= 8; data += 8, size -= 8) crc = __crc32cd(crc, load<std::uint64_t>(data));
  if (size & 4) {
    crc = __crc32cw(crc, load<std::uint32_t>(data));
    data += 4;
  }
  if (size & 2) {
    crc = __crc32ch(crc, load<std::uint16_t>(data));
    data += 2;
  }
  if (size & 1) crc = __crc32cb(crc, load<std::uint8_t>(data));
  return crc;
}

MUSTER_TARGET_CRC std::uint32_t extend_crc(std::uint32_t crc, const char* data, std::size_t size) {
  return extend_words(crc, data, size);
}

MUSTER_TARGET_CRC_PMULL inline uint64x2_t load_lane(const char* data) {
  return vreinterpretq_u64_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(data)));
}

/// What `lane` (16 bytes) amounts to when moved on by as many words as the factors stand for.
MUSTER_TARGET_CRC_PMULL inline uint64x2_t fold(uint64x2_t lane, poly64x2_t factors) {
  const poly64x2_t value = vreinterpretq_p64_u64(lane);
  const auto low = vmull_p64(vgetq_lane_p64(value, 0), vgetq_lane_p64(factors, 0));
  const auto high = vmull_high_p64(value, factors);
  return veorq_u64(vreinterpretq_u64_p128(low), vreinterpretq_u64_p128(high));
}

MUSTER_TARGET_CRC_PMULL inline poly64x2_t factors_for(std::size_t words) {
  return vreinterpretq_p64_u64(
      vcombine_u64(vcreate_u64(kShift[words + 1]), vcreate_u64(kShift[words])));
}

// Eight lanes of 16 bytes, each folded over the other seven a round: enough to hide the latency of
// the product. All lanes walk through memory side by side. Streams of the CRC instruction in
// distant parts of a record, joined at the end, are faster in the cache but a third slower from
// memory, because they leave the path that the processor reads ahead on.
constexpr std::size_t kLanes = 8;
constexpr std::size_t kLaneBytes = 16;
constexpr std::size_t kRoundBytes = kLanes * kLaneBytes;

MUSTER_TARGET_CRC_PMULL inline std::uint32_t extend_rounds(std::uint32_t crc, const char* data,
                                                           std::size_t rounds) {
  uint64x2_t lanes[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = load_lane(data + kLaneBytes * i);
  lanes[0] = veorq_u64(lanes[0], vcombine_u64(vcreate_u64(crc), vcreate_u64(0)));
  const poly64x2_t factors = factors_for(kRoundBytes / 8);
  for (std::size_t round = 1; round < rounds; ++round) {
    data += kRoundBytes;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kLanes; ++i) {
      lanes[i] = veorq_u64(fold(lanes[i], factors), load_lane(data + kLaneBytes * i));
    }
  }
  uint64x2_t sum = lanes[kLanes - 1];
#pragma GCC unroll 8
  for (std::size_t i = 0; i + 1 < kLanes; ++i) {
    sum = veorq_u64(sum, fold(lanes[i], factors_for(2 * (kLanes - 1 - i))));
  }
  return __crc32cd(__crc32cd(0, vgetq_lane_u64(sum, 0)), vgetq_lane_u64(sum, 1));
}

MUSTER_TARGET_CRC_PMULL std::uint32_t extend_crc_pmull(std::uint32_t crc, const char* data,
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
  const unsigned long has = ::getauxval(AT_HWCAP);
  if ((has & HWCAP_CRC32) == 0) return std::nullopt;
  if ((has & HWCAP_PMULL) == 0) return Hardware{extend_crc, "armv8-crc"};
  return Hardware{extend_crc_pmull, "armv8-crc+pmull"};
}

}  // namespace muster::crc32c_internal
