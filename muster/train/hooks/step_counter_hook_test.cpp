#include "muster/train/hooks/logging_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeSession;
using ::testing::HasSubstr;
using testing::LogLines;
using ::testing::SizeIs;

TEST(StepCounterHook, LogsAndWritesTheRateFromTheSecondPeriodOn) {
  FakeSession session;
  session.step_time = 250ms;
  StepCounterHook hook({.every_n_steps = 2, .clock = session.clock()});
  const LogLines log;
  session.run(hook, 5);
  EXPECT_THAT(log.lines, ElementsAre("global_step/sec: 4", "global_step/sec: 4"));
  const auto events = session.written_events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].step, 3);
  EXPECT_EQ(std::get<Summary>(events[0].what).at(0).tag, "global_step/sec");
  EXPECT_EQ(scalar_of(std::get<Summary>(events[0].what).at(0)), 4.0);
}

TEST(StepCounterHook, CountsAHundredStepsUnlessTold) {
  FakeSession session;
  session.step_time = 1ms;
  StepCounterHook hook({.clock = session.clock()});
  const LogLines log;
  session.run(hook, 100);
  EXPECT_THAT(log.lines, SizeIs(0));
  session.run(hook);
  EXPECT_THAT(log.lines, ElementsAre("global_step/sec: 1000"));
}

TEST(StepCounterHook, CountsTheStepsThatOthersMade) {
  FakeSession session;
  session.step_time = 1s;
  StepCounterHook hook({.every_n_secs = 1s, .clock = session.clock()});
  const LogLines log;
  session.run(hook);
  session.step += 6;
  session.run(hook);
  EXPECT_THAT(log.lines, ElementsAre("global_step/sec: 7"));
}

TEST(StepCounterHook, WarnsFiveTimesOfAStepThatDoesNotMove) {
  FakeSession session;
  StepCounterHook hook;
  const LogLines log;
  session.run(hook);
  for (int i = 0; i < 20; ++i) hook.after_run(session);
  EXPECT_THAT(log.lines, SizeIs(5));
  EXPECT_THAT(log.lines, Each(HasSubstr("did not move: step=1")));
}

TEST(StepCounterHook, ARollBackIsNoNegativeRate) {
  FakeSession session;
  session.step_time = 1s;
  StepCounterHook hook({.every_n_secs = 1s, .clock = session.clock()});
  session.run(hook, 50);
  const LogLines log;
  session.step = 10;
  hook.after_create_session(session);
  session.run(hook, 2);
  EXPECT_THAT(log.lines, ElementsAre("global_step/sec: 1"));
}

TEST(StepCounterHook, RefusesBothPeriods) {
  EXPECT_THROW(StepCounterHook({.every_n_steps = 1, .every_n_secs = 1s}), InvalidArgument);
}

}  // namespace
}  // namespace muster
