#include "muster/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "muster/base/error.h"

namespace muster {
namespace {

// The known-answer vectors that the authors of Philox publish for philox4x32 with 10 rounds.
TEST(Philox, ReproducesThePublishedVectors) {
  using Block = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox(0, 0, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ULL, ~0ULL, ~0ULL), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, IsAFunctionOfItsKeyAlone) {
  Random a(7, 1, 2);
  Random b(7, 1, 2);
  Random other(7, 2, 1);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const auto value = a.next_u64();
    EXPECT_EQ(value, b.next_u64());
    differs |= value != other.next_u64();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, UniformFillsTheUnitIntervalEvenly) {
  Random random(1);
  constexpr int kDraws = 100'000;
  std::vector<int> counts(10);
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<std::size_t>(random.uniform() * 10)];
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 10, 400);
}

TEST(Random, BelowIsUnbiasedAndRefusesZero) {
  Random random(2);
  std::vector<int> counts(3);
  for (int i = 0; i < 30'000; ++i) ++counts[random.below(3)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 350);
  EXPECT_LT(random.below(std::uint64_t{1} << 63), std::uint64_t{1} << 63);
  EXPECT_THROW(random.below(0), InvalidArgument);
}

TEST(Random, NormalHasMeanZeroAndUnitVariance) {
  Random random(3);
  constexpr int kDraws = 100'000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.02);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.02);
}

TEST(Permutation, IsABijectionOfEverySmallSize) {
  for (std::uint64_t size = 1; size < 300; ++size) {
    const Permutation permutation(size, 42);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) {
      const auto element = permutation(i);
      EXPECT_LT(element, size);
      EXPECT_EQ(permutation.inverse(element), i);
      seen.insert(element);
    }
    EXPECT_EQ(seen.size(), size);
  }
}

TEST(Permutation, WorksAtTheEndsOfTheRange) {
  EXPECT_THROW(Permutation(0, 1)(0), OutOfRange);
  const Permutation huge(~std::uint64_t{0}, 9);
  for (const std::uint64_t place :
       {std::uint64_t{0}, ~std::uint64_t{0} - 1, std::uint64_t{1} << 40}) {
    EXPECT_EQ(huge.inverse(huge(place)), place);
  }
}

// Each element is equally likely at each place: over many keys, a chi-square of the counts stays in
// range.
TEST(Permutation, PutsEveryElementEverywhereEquallyOften) {
  constexpr std::uint64_t kSize = 10;
  constexpr int kKeys = 20'000;
  std::vector<std::vector<int>> counts(kSize, std::vector<int>(kSize));
  for (int key = 0; key < kKeys; ++key) {
    const Permutation permutation(kSize, static_cast<std::uint64_t>(key));
    for (std::uint64_t i = 0; i < kSize; ++i) ++counts[i][permutation(i)];
  }
  const double expected = static_cast<double>(kKeys) / kSize;
  for (const auto& row : counts) {
    double chi_square = 0;
    for (const int count : row) chi_square += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi_square, 35.0);  // 9 degrees of freedom: passed by chance once in 10,000.
  }
}

TEST(Permutation, LeavesNoNeighboursTogether) {
  constexpr std::uint64_t kSize = 100'000;
  const Permutation permutation(kSize, 5);
  int neighbours = 0;
  for (std::uint64_t i = 1; i < kSize; ++i) {
    const auto a = permutation(i - 1);
    const auto b = permutation(i);
    neighbours += (a > b ? a - b : b - a) == 1 ? 1 : 0;
  }
  EXPECT_LT(neighbours, 15);  // Two are expected of a random order.
}

}  // namespace
}  // namespace muster
