#pragma once

#include <bit>
#include <cstring>

static_assert(std::endian::native == std::endian::little, "muster's formats are read in place");

namespace muster {

/// The number whose bytes begin at `data`, at any alignment.
template <typename Word>
Word load_unaligned(const char* data) {
  Word word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

}  // namespace muster
