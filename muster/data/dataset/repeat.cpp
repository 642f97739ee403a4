#include "muster/data/dataset/repeat.h"

namespace muster {

// Rounds without end get 32 bits: at an epoch a second that is 136 years.
std::uint64_t EpochNumbers::radix() const {
  return count_ ? std::max<std::uint64_t>(*count_, 1) : std::uint64_t{1} << 32;
}

std::uint64_t EpochNumbers::epoch(std::uint64_t outer, std::uint64_t round) const {
  return checked_pack(outer, radix(), round, "repeat");
}

std::uint64_t EpochNumbers::outer(std::uint64_t epoch) const { return epoch / radix(); }

}  // namespace muster
