#include "muster/base/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kPhiloxRounds = 10;

// A round function of the Feistel network: mixes one half with a key into 32 good bits.
std::uint32_t feistel(std::uint32_t half, std::uint32_t key) {
  std::uint64_t x = (std::uint64_t{key} << 32) ^ (half * std::uint64_t{0x9E3779B97F4A7C15});
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93;
  return static_cast<std::uint32_t>(x >> 32);
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  std::array<std::uint32_t, 4> c{
      static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
      static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{kMultiplier0} * c[0];
    const std::uint64_t p1 = std::uint64_t{kMultiplier1} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

std::uint64_t derive_key(std::uint64_t key, std::uint64_t part, std::uint64_t subpart) {
  const auto block = philox(key, part, subpart);
  return block[0] | (std::uint64_t{block[1]} << 32);
}

void Random::refill() {
  // The high word sets a stream's own values apart from the keys derived from the same key.
  constexpr std::uint64_t kStream = 0x6D7573746572;
  block_ = philox(key_, counter_++, kStream << 16);
  used_ = 0;
}

std::uint64_t Random::below(std::uint64_t bound) {
  if (bound == 0) throw InvalidArgument("Random::below needs a bound above 0");
  // Lemire's method: the high half of a product is uniform once the few biased low halves are
  // redrawn.
  __extension__ using Wide = unsigned __int128;
  for (;;) {
    const Wide product = Wide{next_u64()} * bound;
    const auto low = static_cast<std::uint64_t>(product);
    if (low >= bound || low >= (0 - bound) % bound)
      return static_cast<std::uint64_t>(product >> 64);
  }
}

double Random::normal() {
  const double u = 1.0 - uniform();  // In (0, 1], so that the logarithm is finite.
  const double angle = 2.0 * std::numbers::pi * uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(angle);
}

Permutation::Permutation(std::uint64_t size, std::uint64_t key) : size_(size) {
  const unsigned bits = size <= 1 ? 2 : static_cast<unsigned>(std::bit_width(size - 1));
  half_bits_ = (bits + 1) / 2;
  half_mask_ = (std::uint64_t{1} << half_bits_) - 1;
  Random random(derive_key(key, size));
  for (auto& round_key : round_keys_) round_key = random.next_u32();
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & half_mask_;
  for (const auto key : round_keys_) {
    const std::uint64_t next =
        left ^ (feistel(static_cast<std::uint32_t>(right), key) & half_mask_);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

std::uint64_t Permutation::decrypt(std::uint64_t value) const {
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & half_mask_;
  for (auto key = round_keys_.rbegin(); key != round_keys_.rend(); ++key) {
    const std::uint64_t previous =
        right ^ (feistel(static_cast<std::uint32_t>(left), *key) & half_mask_);
    right = left;
    left = previous;
  }
  return (left << half_bits_) | right;
}

std::uint64_t Permutation::operator()(std::uint64_t place) const {
  if (place >= size_) throw OutOfRange("place {} of a permutation of {}", place, size_);
  // The network permutes at most four times as many values; following it from inside comes back
  // inside.
  do {
    place = encrypt(place);
  } while (place >= size_);
  return place;
}

std::uint64_t Permutation::inverse(std::uint64_t element) const {
  if (element >= size_) throw OutOfRange("element {} of a permutation of {}", element, size_);
  do {
    element = decrypt(element);
  } while (element >= size_);
  return element;
}

}  // namespace muster
