#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "muster/base/random.h"
#include "muster/distribution/parameter_server/staleness_bound_internal.h"

namespace muster::internal {
namespace {

TEST(StalenessBound, IsNoneUnlessAskedForAndNeverBelowWhatTasksThatBeginTogetherNeed) {
  EXPECT_EQ(StalenessBound(0, 5).updates(), 0);
  EXPECT_EQ(StalenessBound(2, 5).updates(), 4);
  EXPECT_EQ(StalenessBound(9, 5).updates(), 9);
  const std::vector<std::int64_t> old{0};
  EXPECT_TRUE(StalenessBound(0, 2).allows(1000, old));
}

TEST(StalenessBound, KeepsATurnForEveryoneWhoseValuesGrowOld) {
  const StalenessBound bound(4, 3);
  // The other two got their values at 0: the later of them is to be number 5 at the latest.
  const std::vector<std::int64_t> others{0, 0};
  EXPECT_TRUE(bound.allows(2, others));
  EXPECT_FALSE(bound.allows(3, others));
  // One of them got new values in between.
  EXPECT_TRUE(bound.allows(3, std::vector<std::int64_t>{0, 3}));
}

// Tasks of any speed: no task waits for ever, and no values are older than the bound.
TEST(StalenessBound, HoldsForTasksOfAnySpeedAndLetsSomebodyGoOn) {
  Random random(5, 0, 0);
  for (std::size_t tasks = 1; tasks <= 6; ++tasks) {
    for (std::int64_t asked = 1; asked <= 8; ++asked) {
      const StalenessBound bound(asked, tasks);
      std::vector<std::int64_t> pulled(tasks, 0);
      std::vector<bool> waits(tasks, false);
      std::int64_t made = 0;
      for (int event = 0; event < 500; ++event) {
        // One of those that compute has its gradients, the first much more often than the others.
        const bool first = random.uniform(0, 1) < 0.7;
        auto task = first ? 0 : static_cast<std::size_t>(random.uniform(0, double(tasks)));
        for (std::size_t i = 0; i < tasks && waits[task]; ++i) task = (task + 1) % tasks;
        ASSERT_FALSE(waits[task]) << "all of " << tasks << " tasks wait";
        waits[task] = true;
        for (bool applied = true; applied;) {
          applied = false;
          for (std::size_t t = 0; t < tasks; ++t) {
            std::vector<std::int64_t> others = pulled;
            others.erase(others.begin() + static_cast<std::ptrdiff_t>(t));
            if (!waits[t] || !bound.allows(made, others)) continue;
            EXPECT_LE(made - pulled[t], bound.updates());
            pulled[t] = ++made;
            waits[t] = false;
            applied = true;
          }
        }
      }
      EXPECT_GT(made, 400);
    }
  }
}

}  // namespace
}  // namespace muster::internal
