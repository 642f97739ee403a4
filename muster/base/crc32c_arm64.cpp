#include <arm_acle.h>
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "muster/base/crc32c_internal.h"

// The file is built for any ARMv8; these functions for the extensions, and they are only called
// where the kernel says that the processor has them.
#if defined(__clang__)
// Its arm_acle.h shows these only when the whole file is built for the extension.
#define __crc32cb __builtin_arm_crc32cb
#define __crc32ch __builtin_arm_crc32ch
#define __crc32cw __builtin_arm_crc32cw
#define __crc32cd __builtin_arm_crc32cd
#define MUSTER_TARGET_CRC __attribute__((target("crc")))
#define MUSTER_TARGET_FOLD __attribute__((target("crc,aes")))
#else
#define MUSTER_TARGET_CRC __attribute__((target("arch=armv8-a+crc")))
#define MUSTER_TARGET_FOLD __attribute__((target("arch=armv8-a+crc+crypto")))
#endif

namespace muster::crc32c_internal {
namespace {

MUSTER_TARGET_CRC inline std::uint32_t crc_of(std::uint32_t crc, std::uint64_t word) {
  return __crc32cd(crc, word);
}
MUSTER_TARGET_CRC inline std::uint32_t crc_of(std::uint32_t crc, std::uint32_t word) {
  return __crc32cw(crc, word);
}
MUSTER_TARGET_CRC inline std::uint32_t crc_of(std::uint32_t crc, std::uint16_t word) {
  return __crc32ch(crc, word);
}
MUSTER_TARGET_CRC inline std::uint32_t crc_of(std::uint32_t crc, std::uint8_t word) {
  return __crc32cb(crc, word);
}

using Lane = uint64x2_t;
using Factors = poly64x2_t;

MUSTER_TARGET_FOLD inline Lane load_lane(const char* data) {
  return vreinterpretq_u64_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(data)));
}
MUSTER_TARGET_FOLD inline Lane lane_of(std::uint32_t crc) {
  return vcombine_u64(vcreate_u64(crc), vcreate_u64(0));
}
MUSTER_TARGET_FOLD inline Lane plus(Lane a, Lane b) { return veorq_u64(a, b); }

/// Value of `lane` when moved on by as many words as the factors stand for.
MUSTER_TARGET_FOLD inline Lane fold(Lane lane, Factors factors) {
  const poly64x2_t value = vreinterpretq_p64_u64(lane);
  const auto low = vmull_p64(vgetq_lane_p64(value, 0), vgetq_lane_p64(factors, 0));
  const auto high = vmull_high_p64(value, factors);
  return veorq_u64(vreinterpretq_u64_p128(low), vreinterpretq_u64_p128(high));
}
MUSTER_TARGET_FOLD inline Factors factors_for(std::size_t words) {
  return vreinterpretq_p64_u64(
      vcombine_u64(vcreate_u64(kShift[words + 1]), vcreate_u64(kShift[words])));
}
MUSTER_TARGET_FOLD inline std::uint64_t low_word(Lane lane) { return vgetq_lane_u64(lane, 0); }
MUSTER_TARGET_FOLD inline std::uint64_t high_word(Lane lane) { return vgetq_lane_u64(lane, 1); }

// The processor reads ahead along the one path that all lanes walk. Streams of the CRC instruction
// in distant parts of a record, joined at the end, are faster in the cache but a third slower from
// memory, because they leave that path.
constexpr std::size_t kPrefetchBytes = 0;

}  // namespace
}  // namespace muster::crc32c_internal

#include "muster/base/crc32c_fold_internal.h"

namespace muster::crc32c_internal {

std::optional<Hardware> hardware() {
  const unsigned long has = ::getauxval(AT_HWCAP);
  if ((has & HWCAP_CRC32) == 0) return std::nullopt;
  if ((has & HWCAP_PMULL) == 0) return Hardware{extend_crc, "armv8-crc"};
  return Hardware{extend_folded, "armv8-crc+pmull"};
}

}  // namespace muster::crc32c_internal
