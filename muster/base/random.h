#pragma once

#include <array>
#include <cstdint>

namespace muster {

/// Philox 4x32 with 10 rounds (Salmon et al., SC'11): 128 random bits as a pure function of a key
/// and a counter. Every random number in muster is such a value, so it can be had again in any
/// order, on any thread, after any restart.
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high);

/// A key for a part of the work, such as an epoch and an element: independent of its siblings'
/// keys.
std::uint64_t derive_key(std::uint64_t key, std::uint64_t part, std::uint64_t subpart = 0);

/// A cursor over the values f(key, 0), f(key, 1), ... Copying it copies the place. Not for secrets.
class Random {
 public:
  explicit Random(std::uint64_t key) : key_(key) {}
  Random(std::uint64_t seed, std::uint64_t epoch, std::uint64_t element)
      : key_(derive_key(seed, epoch, element)) {}

  std::uint32_t next_u32() {
    if (used_ == 4) refill();
    return block_[used_++];
  }
  std::uint64_t next_u64() {
    const std::uint64_t low = next_u32();
    return low | (std::uint64_t{next_u32()} << 32);
  }
  /// In [0, 1), with 53 random bits.
  double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }
  /// In [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In [0, bound), every value equally likely. `bound` must not be 0.
  std::uint64_t below(std::uint64_t bound);
  bool coin(double probability = 0.5) { return uniform() < probability; }
  /// Mean 0, standard deviation 1.
  double normal();

 private:
  void refill();

  std::uint64_t key_;
  std::uint64_t counter_ = 0;
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;
};

/// A keyed bijection on [0, size): a random order of `size` things in O(1) memory, each place of it
/// computable alone (a Feistel network over the next even power of two, walked until it lands
/// inside).
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t key);

  std::uint64_t size() const { return size_; }
  /// The element at `place`, which must be below size().
  std::uint64_t operator()(std::uint64_t place) const;
  /// The place of `element`: inverse(p(i)) == i.
  std::uint64_t inverse(std::uint64_t element) const;

 private:
  static constexpr int kRounds = 8;
  std::uint64_t encrypt(std::uint64_t value) const;
  std::uint64_t decrypt(std::uint64_t value) const;

  std::uint64_t size_;
  unsigned half_bits_;
  std::uint64_t half_mask_;
  std::array<std::uint32_t, kRounds> round_keys_{};
};

}  // namespace muster
