#include "muster/data/dataset/parallel_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(ParallelMap, KeepsTheOrderWhateverTheParallelism) {
  const auto square = [](std::int64_t value) { return value * value; };
  const auto serial = drain(range(20000).map(square));
  for (const std::size_t parallelism : {2, 3, 4, 0}) {
    EXPECT_EQ(drain(range(20000).map(square, {.parallelism = parallelism})), serial);
  }
}

TEST(ParallelMap, CallsTheFunctionInSeveralThreadsAtOnce) {
  std::latch both(2);  // passed only when two calls are under way at the same time
  const auto dataset = range(2).map(
      [&](std::int64_t value) {
        both.arrive_and_wait();
        return value;
      },
      {.parallelism = 2});
  EXPECT_THAT(drain(dataset), ::testing::ElementsAre(0, 1));
}

TEST(ParallelMap, GivesEveryElementOnceWhenUnordered) {
  auto values = drain(range(5000).map([](std::int64_t value) { return value; },
                                      {.parallelism = 3, .ordered = false}));
  std::sort(values.begin(), values.end());
  EXPECT_EQ(values, drain(range(5000)));
}

TEST(ParallelMap, GivesAnElementThatIsReadyWhileAnEarlierOneIsNotWhenUnordered) {
  std::latch second_seen(1);
  auto iterator = range(2)
                      .map(
                          [&](std::int64_t value) {
                            if (value == 0) second_seen.wait();
                            return value;
                          },
                          {.parallelism = 2, .ordered = false})
                      .iterate();
  EXPECT_EQ(iterator->next(), 1);
  second_seen.count_down();
  EXPECT_EQ(iterator->next(), 0);
}

TEST(ParallelMap, RefusesToSaveWhenUnorderedAndNamesItself) {
  auto iterator =
      range(10)
          .map([](std::int64_t value) { return value; }, {.parallelism = 2, .ordered = false})
          .batch(2)
          .prefetch(2)
          .iterate();
  iterator->next();
  try {
    iterator->save();
    FAIL();
  } catch (const FailedPrecondition& error) {
    EXPECT_THAT(error.what(), HasSubstr("stage parallel_map(2, unordered)"));
  }
}

TEST(ParallelMap, EndsItsThreadsWhenDestroyedInMidWork) {
  for (int round = 0; round < 200; ++round) {
    auto iterator = range(1'000'000)
                        .map([](std::int64_t value) { return value; }, {.parallelism = 3})
                        .repeat()
                        .prefetch(64)
                        .map([](std::int64_t value) { return value; }, {.parallelism = 2})
                        .batch(3)
                        .prefetch(2)
                        .iterate();
    for (int taken = 0; taken < round % 7; ++taken) iterator->next();
  }
}

TEST(ParallelMap, SurvivesAFailureOfEveryElement) {
  auto iterator =
      range(1000)
          .map([](std::int64_t) -> std::int64_t { throw DataLoss("bad"); }, {.parallelism = 2})
          .prefetch(8)
          .iterate();
  EXPECT_EQ(drain_events(*iterator, show_number).size(), 1000u);
}

}  // namespace
}  // namespace muster
