#pragma once

#include <cstdint>
#include <span>

namespace muster {

/// Fills `out` with the words of philox(key, first_block, 0), philox(key, first_block + 1, 0), ...,
/// many blocks at a time.
void philox_fill(std::uint64_t key, std::uint64_t first_block, std::span<std::uint32_t> out);

}  // namespace muster
