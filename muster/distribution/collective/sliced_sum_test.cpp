#include "muster/distribution/collective/sliced_sum_internal.h"

#include <gtest/gtest.h>

namespace muster::internal {
namespace {

TEST(SliceOf, CoversEveryElementOnce) {
  for (const std::int64_t elements : {0, 1, 16, 17, 1000, 4096}) {
    std::int64_t next = 0;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const FlatRange slice = slice_of(elements, rank, 3);
      EXPECT_EQ(slice.first, next);
      next = slice.last;
    }
    EXPECT_EQ(next, elements);
  }
}

}  // namespace
}  // namespace muster::internal
