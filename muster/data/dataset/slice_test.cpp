#include "muster/data/dataset/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Take, GivesTheFirstElements) {
  EXPECT_THAT(drain(range(5).take(2)), ElementsAre(0, 1));
  EXPECT_THAT(drain(range(2).take(5)), ElementsAre(0, 1));
  EXPECT_THAT(drain(range(2).take(0)), IsEmpty());
  EXPECT_EQ(range(5).take(2).size(), 2u);
}

TEST(Skip, GivesAllButTheFirstElements) {
  EXPECT_THAT(drain(range(5).skip(3)), ElementsAre(3, 4));
  EXPECT_THAT(drain(range(5).skip(9)), IsEmpty());
  EXPECT_EQ(range(5).skip(3).size(), 2u);
}

TEST(Skip, AndTakeMakeAWindowWithRandomAccess) {
  auto values = drain(range(100).skip(10).take(5).global_shuffle(1));
  std::sort(values.begin(), values.end());
  EXPECT_THAT(values, ElementsAre(10, 11, 12, 13, 14));
}

}  // namespace
}  // namespace muster
