#include "muster/data/dataset/interleave.h"

namespace muster {

InterleavedOrdinal InterleavedOrdinal::unpack(std::uint64_t packed) {
  constexpr std::uint64_t kInnerMask = (std::uint64_t{1} << kInnerBits) - 1;
  return {packed >> kInnerBits, packed & kInnerMask};
}

std::uint64_t InterleavedOrdinal::pack() const {
  return checked_pack(outer, std::uint64_t{1} << kInnerBits, inner, "interleave");
}

}  // namespace muster
