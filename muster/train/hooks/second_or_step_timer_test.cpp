#include "muster/train/hooks/second_or_step_timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "muster/base/error.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal_of(const TimerPeriod& period) {
  try {
    SecondOrStepTimer("SomeHook", period);
    return "none";
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

TEST(SecondOrStepTimer, WantsExactlyOnePositivePeriod) {
  EXPECT_EQ(refusal_of({.every_steps = 1}), "none");
  EXPECT_EQ(refusal_of({.every_secs = 0.5s}), "none");
  EXPECT_THAT(refusal_of({}), StartsWith("SomeHook: "));
  EXPECT_THAT(refusal_of({}), HasSubstr("neither"));
  EXPECT_THAT(refusal_of({.every_steps = 1, .every_secs = 1s}), HasSubstr("not in both"));
  EXPECT_THAT(refusal_of({.every_steps = 0}), HasSubstr("positive: 0"));
  EXPECT_THAT(refusal_of({.every_secs = -2s}), HasSubstr("positive: -2"));
  EXPECT_THAT(refusal_of({.every_secs = Seconds(std::nan(""))}), HasSubstr("positive"));
}

TEST(SecondOrStepTimer, TheFirstCallTriggersAtAnyStep) {
  EXPECT_TRUE(SecondOrStepTimer("", {.every_steps = 100}).should_trigger(37));
  EXPECT_TRUE(SecondOrStepTimer("", {.every_secs = 100s}).should_trigger(37));
}

TEST(SecondOrStepTimer, AStepNeverTriggersTwiceHoweverMuchTimePasses) {
  std::chrono::steady_clock::time_point now{};
  SecondOrStepTimer timer("", {.every_secs = 1s}, [&] { return now; });
  timer.update_last_triggered(5);
  now += 1h;
  EXPECT_FALSE(timer.should_trigger(5));
  EXPECT_TRUE(timer.should_trigger(6));
}

TEST(SecondOrStepTimer, CountsStepsFromTheLastTrigger) {
  SecondOrStepTimer timer("", {.every_steps = 10});
  timer.update_last_triggered(3);
  EXPECT_FALSE(timer.should_trigger(12));
  EXPECT_TRUE(timer.should_trigger(13));
  EXPECT_TRUE(timer.should_trigger(40));
  timer.update_last_triggered(40);
  EXPECT_FALSE(timer.should_trigger(49));
  EXPECT_EQ(timer.last_triggered_step(), 40);
}

TEST(SecondOrStepTimer, CountsSecondsFromTheLastTrigger) {
  std::chrono::steady_clock::time_point now{};
  SecondOrStepTimer timer("", {.every_secs = 2s}, [&] { return now; });
  timer.update_last_triggered(1);
  now += 1999ms;
  EXPECT_FALSE(timer.should_trigger(2));
  now += 1ms;
  EXPECT_TRUE(timer.should_trigger(2));
}

TEST(SecondOrStepTimer, TellsWhatPassedSinceTheLastTrigger) {
  std::chrono::steady_clock::time_point now{};
  SecondOrStepTimer timer("", {.every_steps = 1}, [&] { return now; });
  EXPECT_FALSE(timer.update_last_triggered(10).has_value());
  now += 4s;
  const auto elapsed = timer.update_last_triggered(30);
  ASSERT_TRUE(elapsed.has_value());
  EXPECT_EQ(elapsed->seconds, 4s);
  EXPECT_EQ(elapsed->steps, 20);
}

TEST(SecondOrStepTimer, StartsAnewAfterAReset) {
  SecondOrStepTimer timer("", {.every_steps = 100});
  timer.update_last_triggered(90);
  timer.reset();
  EXPECT_FALSE(timer.last_triggered_step().has_value());
  EXPECT_TRUE(timer.should_trigger(20));
  EXPECT_FALSE(timer.update_last_triggered(20).has_value());
}

}  // namespace
}  // namespace muster
