#include "muster/data/dataset/repeat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Repeat, GivesTheStreamSoManyTimes) {
  EXPECT_THAT(drain(range(2).repeat(3)), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(drain(range(2).repeat(0)), IsEmpty());
  EXPECT_EQ(range(2).repeat(3).size(), 6u);
}

TEST(Repeat, GoesOnForeverWithoutACount) {
  EXPECT_THAT(drain(range(2).repeat().take(5)), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(range(2).repeat().size(), std::nullopt);
}

TEST(Repeat, EndsWhenThereIsNothingToRepeat) { EXPECT_THAT(drain(range(0).repeat()), IsEmpty()); }

TEST(Repeat, IsKnownToBeEndlessThroughStagesAfterIt) {
  EXPECT_TRUE(range(2).repeat().batch(2).prefetch(1).stage()->is_endless());
  EXPECT_TRUE(range(2).repeat().skip(1).repeat(2).stage()->is_endless());
  EXPECT_FALSE(range(2).repeat().take(5).stage()->is_endless());
  EXPECT_FALSE(range(2).repeat(3).batch(2).stage()->is_endless());
}

// As a run does whose last epoch is later than it was.
TEST(Repeat, APositionAtTheEndGoesOnWithALargerCount) {
  auto iterator = range(3).repeat(2).iterate();
  while (iterator->next()) continue;
  const std::string end = iterator->save();
  EXPECT_THAT(drain(*range(3).repeat(3).iterate(end)), ElementsAre(0, 1, 2));
  EXPECT_THAT(drain(*range(3).repeat(2).iterate(end)), IsEmpty());
}

TEST(Repeat, NumbersNestedEpochsEachOnce) {
  auto iterator = range(1).repeat(2).repeat(3).iterate();
  std::vector<std::uint64_t> epochs;
  while (auto element = iterator->next_element()) epochs.push_back(element->origin.epoch);
  EXPECT_THAT(epochs, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Repeat, ResumesAShuffleOverSeveralEpochsWithoutReadingThemAgain) {
  std::uint64_t calls = 0;
  const auto dataset = range(10)
                           .map([&](std::int64_t value) {
                             ++calls;
                             return value;
                           })
                           .repeat()
                           .shuffle(25, 1)
                           .take(10'020);
  auto iterator = dataset.iterate();
  for (int i = 0; i < 10'000; ++i) iterator->next();
  const std::string position = iterator->save();
  calls = 0;
  auto resumed = dataset.iterate(position);
  EXPECT_EQ(calls, 25u);
  EXPECT_EQ(drain(*resumed), drain(*iterator));
}

}  // namespace
}  // namespace muster
