#include "muster/distribution/collective/all_reduce_internal.h"

#include <gtest/gtest.h>

namespace muster::internal {
namespace {

TEST(HalvesOf, CoverEveryElementOnce) {
  for (const FlatRange range : {FlatRange{0, 0}, {0, 1}, {0, 16}, {16, 49}, {32, 4096}}) {
    const Halves halves = halves_of(range);
    EXPECT_EQ(halves.lower.first, range.first);
    EXPECT_LE(halves.lower.first, halves.lower.last);
    EXPECT_EQ(halves.lower.last, halves.upper.first);
    EXPECT_LE(halves.upper.first, halves.upper.last);
    EXPECT_EQ(halves.upper.last, range.last);
  }
}

}  // namespace
}  // namespace muster::internal
