#include "muster/data/dataset/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(Filter, KeepsTheElementsForWhichThePredicateHolds) {
  const auto odd = range(8).filter([](std::int64_t value) { return value % 2 == 1; });
  EXPECT_THAT(drain(odd), ElementsAre(1, 3, 5, 7));
  EXPECT_EQ(odd.size(), std::nullopt);
}

TEST(Filter, EndsWhenItKeepsNothing) {
  EXPECT_TRUE(drain(range(10000).filter([](std::int64_t) { return false; })).empty());
}

TEST(Filter, SaysAtWhichElementThePredicateThrew) {
  auto iterator = range(3)
                      .filter([](std::int64_t value) {
                        if (value == 1) throw InvalidArgument("no");
                        return true;
                      })
                      .iterate();
  EXPECT_THAT(drain_events(*iterator, show_number),
              ElementsAre("0", "!filter of range element 1: no", "2"));
}

}  // namespace
}  // namespace muster
