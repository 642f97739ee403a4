#include "muster/data/dataset/global_shuffle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(GlobalShuffle, GivesEveryElementOnceInANewOrderEachEpoch) {
  const auto twice = drain(range(1000).global_shuffle(1).repeat(2));
  ASSERT_EQ(twice.size(), 2000u);
  std::vector<std::int64_t> first(twice.begin(), twice.begin() + 1000);
  std::vector<std::int64_t> second(twice.begin() + 1000, twice.end());
  EXPECT_NE(first, second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, drain(range(1000)));
  EXPECT_EQ(second, first);
}

TEST(GlobalShuffle, ResumesWithoutMakingAnythingAgain) {
  int calls = 0;
  const auto dataset = range(1000)
                           .map([&](std::int64_t value) {
                             ++calls;
                             return value;
                           })
                           .global_shuffle(3);
  auto iterator = dataset.iterate();
  for (int i = 0; i < 600; ++i) iterator->next();
  const std::string position = iterator->save();
  EXPECT_LT(position.size(), 40u);
  calls = 0;
  auto resumed = dataset.iterate(position);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(drain(*resumed), drain(*iterator));
}

TEST(GlobalShuffle, IsSharedOutByShardsWithoutOverlap) {
  const auto shuffled = range(101).global_shuffle(5);
  std::vector<std::int64_t> all;
  for (std::uint64_t part = 0; part < 4; ++part) {
    const auto values = drain(shuffled.shard(4, part));
    all.insert(all.end(), values.begin(), values.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, drain(range(101)));
}

TEST(GlobalShuffle, SaysWhatStandsInTheWay) {
  const auto even = [](std::int64_t value) { return value % 2 == 0; };
  try {
    range(10)
        .filter(even)
        .map([](std::int64_t value) { return value; })
        .global_shuffle(1)
        .iterate();
    FAIL();
  } catch (const FailedPrecondition& error) {
    EXPECT_THAT(error.what(), HasSubstr("global_shuffle needs random access: filter"));
  }
}

}  // namespace
}  // namespace muster
