#include "muster/train/engine/step_times.h"

#include <gtest/gtest.h>

#include <thread>

namespace muster {
namespace {

// Until so much of the clock has gone by.
void spend(std::chrono::microseconds span) {
  const auto end = StepTimes::Clock::now() + span;
  while (StepTimes::Clock::now() < end) std::this_thread::yield();
}

TEST(StepTimes, CountsEachPartAndThatOfWhatItIsInside) {
  StepTimes times;
  {
    const StepTimes::In saving(&times, StepPart::kSave);
    spend(std::chrono::microseconds(300));
    const StepTimes::In evaluating(&times, StepPart::kEvaluate);
    spend(std::chrono::microseconds(200));
  }
  const auto totals = times.totals();
  EXPECT_GE(totals[static_cast<std::size_t>(StepPart::kSave)], std::chrono::microseconds(300));
  EXPECT_GE(totals[static_cast<std::size_t>(StepPart::kEvaluate)], std::chrono::microseconds(200));
  EXPECT_EQ(totals[static_cast<std::size_t>(StepPart::kInput)], StepTimes::Clock::duration::zero());
}

TEST(StepTimes, TellsAPartThatHasNotEnded) {
  StepTimes times;
  const StepTimes::In waiting(&times, StepPart::kInput);
  spend(std::chrono::microseconds(200));
  EXPECT_GE(times.totals()[static_cast<std::size_t>(StepPart::kInput)],
            std::chrono::microseconds(200));
}

TEST(StepShares, AreThoseOfTheTimeSinceTheLastCall) {
  StepTimes times;
  StepShares shares(times);
  {
    const StepTimes::In summing(&times, StepPart::kSum);
    spend(std::chrono::microseconds(500));
    const auto first = shares.next();
    EXPECT_GT(first[static_cast<std::size_t>(StepPart::kSum)], 50);
  }
  shares.next();
  spend(std::chrono::microseconds(500));
  const auto second = shares.next();
  EXPECT_EQ(second[static_cast<std::size_t>(StepPart::kSum)], 0);
  EXPECT_EQ(second[static_cast<std::size_t>(StepPart::kCompute)], 100);
}

}  // namespace
}  // namespace muster
