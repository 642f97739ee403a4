#include "muster/dataset/shuffle.h"

#include <array>

#include "muster/base/random.h"

namespace muster {

ShuffleDraws::ShuffleDraws(std::uint64_t seed, std::uint64_t epoch)
    : key_(derive_key(seed, epoch)) {}

std::size_t ShuffleDraws::draw(std::size_t size) {
  std::uint64_t bits = spare_;
  if (drawn_ % 2 == 0) {
    const std::array<std::uint32_t, 4> block = philox(key_, drawn_ / 2, 0);
    bits = std::uint64_t{block[0]} << 32 | block[1];
    spare_ = std::uint64_t{block[2]} << 32 | block[3];
  }
  ++drawn_;
  // The upper half of the product is uniform but for a bias of size / 2^64.
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::size_t>((Wide{bits} * size) >> 64);
}

void ShuffleDraws::go_to(std::uint64_t draw_number) {
  drawn_ = draw_number - draw_number % 2;
  if (draw_number % 2 != 0) draw(1);
}

}  // namespace muster
