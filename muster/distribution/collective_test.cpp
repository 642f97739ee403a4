#include <gtest/gtest.h>

#include "muster/distribution/coordinator_internal.h"
#include "muster/distribution/sliced_sum_internal.h"

namespace muster::internal {
namespace {

TEST(Coordinator, DealsReplicasToNeighboursAsEvenlyAsCanBe) {
  using Ranges = std::vector<ReplicaRange>;
  EXPECT_EQ(Coordinator::deal(4, 1), (Ranges{{0, 4}}));
  EXPECT_EQ(Coordinator::deal(4, 3), (Ranges{{0, 2}, {2, 3}, {3, 4}}));
  EXPECT_EQ(Coordinator::deal(2, 3), (Ranges{{0, 1}, {1, 2}, {2, 2}}));
}

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
