#include "muster/data/dataset/map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

std::int64_t refuse_three(std::int64_t value) {
  if (value == 3) throw InvalidArgument("three is not wanted");
  return value * 10;
}

TEST(Map, GivesWhatTheFunctionReturnsAlsoOfAnotherType) {
  const auto dataset = range(3).map([](std::int64_t value) { return std::to_string(value + 1); });
  EXPECT_THAT(drain(dataset), ElementsAre("1", "2", "3"));
}

TEST(Map, MovesElementsThatCannotBeCopied) {
  const auto dataset =
      range(2)
          .map([](std::int64_t value) { return std::make_unique<std::int64_t>(value); })
          .map([](std::unique_ptr<std::int64_t> value) { return *value + 5; });
  EXPECT_THAT(drain(dataset), ElementsAre(5, 6));
}

TEST(Map, ThrowsInThePlaceOfTheElementAndSaysWhichItWas) {
  for (const std::size_t parallelism : {1, 2}) {
    auto iterator = range(5).map(refuse_three, {.parallelism = parallelism}).iterate();
    EXPECT_THAT(drain_events(*iterator, show_number),
                ElementsAre("0", "10", "20", "!map of range element 3: three is not wanted", "40"));
  }
}

TEST(Map, KeepsTheCodeOfOurErrorsAndTheTextOfOthers) {
  auto ours = from_vector<int>({1}).map([](int) -> int { throw DataLoss("gone"); }).iterate();
  EXPECT_THROW(ours->next(), DataLoss);
  auto other = from_vector<int>({1})
                   .map([](int) -> int { throw std::runtime_error("something else"); })
                   .iterate();
  try {
    other->next();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "map of from_vector element 0: something else");
  }
}

TEST(Map, GivesARandomThatDependsOnSeedEpochAndElementOnly) {
  const auto draw = [](std::int64_t, Random& random) { return random.next_u64(); };
  const auto first = drain(range(100).repeat(2).map(draw, {.seed = 5}));
  EXPECT_EQ(first, drain(range(100).repeat(2).map(draw, {.parallelism = 4, .seed = 5})));
  EXPECT_EQ(first, drain(range(100).map(draw, {.seed = 5}).repeat(2)));
  EXPECT_NE(first, drain(range(100).repeat(2).map(draw, {.seed = 6})));
  EXPECT_NE(first[0], first[100]) << "another epoch";
  EXPECT_EQ(first[17], Random(5, 0, 17).next_u64());
  EXPECT_EQ(first[117], Random(5, 1, 17).next_u64());
}

TEST(Map, IsNotCalledForElementsThatAreSkippedOrBelongToOtherShards) {
  std::atomic<int> calls{0};
  const auto counted = range(100).map([&](std::int64_t value) {
    ++calls;
    return value;
  });
  EXPECT_THAT(drain(counted.skip(98)), ElementsAre(98, 99));
  EXPECT_EQ(calls.exchange(0), 2);
  EXPECT_THAT(drain(counted.shard(50, 3)), ElementsAre(3, 53));
  EXPECT_EQ(calls.exchange(0), 2);
}

}  // namespace
}  // namespace muster
