#include "muster/train/hooks/logging_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeSession;
using testing::LogLines;
using ::testing::SizeIs;

TEST(ExamplesPerSecondHook, LogsAverageAndLastPeriodInTheSeedsWords) {
  FakeSession session;
  session.examples = 128;
  session.step_time = 100ms;
  ExamplesPerSecondHook hook({.every_n_steps = 10, .clock = session.clock()});
  const LogLines log;
  session.run(hook, 11);
  session.step_time = 300ms;
  session.run(hook, 10);
  EXPECT_THAT(log.lines, ElementsAre("Average examples/sec: 1280 (1280), step = 10",
                                     "Average examples/sec: 640 (426.667), step = 20"));
}

TEST(ExamplesPerSecondHook, CountsTheExamplesThatStepsReallyHad) {
  FakeSession session;
  session.step_time = 1s;
  session.examples = 64;
  ExamplesPerSecondHook hook({.every_n_steps = 2, .clock = session.clock()});
  const LogLines log;
  session.run(hook, 2);
  session.examples = 16;  // the short batch at the end of an epoch
  session.run(hook);
  EXPECT_THAT(log.lines, ElementsAre("Average examples/sec: 40 (40), step = 2"));
}

TEST(ExamplesPerSecondHook, CountsTheStepsThatOtherTasksMadeMeanwhile) {
  FakeSession session;
  session.step_time = 1s;
  session.examples = 8;
  ExamplesPerSecondHook hook({.every_n_steps = 4, .clock = session.clock()});
  const LogLines log;
  session.run(hook);
  session.step += 3;
  session.run(hook);
  EXPECT_THAT(log.lines, ElementsAre("Average examples/sec: 32 (32), step = 4"));
}

TEST(ExamplesPerSecondHook, PrintsLargeNumbersAsTheSeedsDo) {
  FakeSession session;
  session.step_time = 1ms;
  session.examples = 5000;
  ExamplesPerSecondHook hook({.every_n_secs = 1s, .clock = session.clock()});
  const LogLines log;
  session.run(hook, 1001);
  EXPECT_THAT(log.lines, ElementsAre("Average examples/sec: 5e+06 (5e+06), step = 1000"));
}

TEST(ExamplesPerSecondHook, CountsAHundredStepsUnlessTold) {
  FakeSession session;
  session.step_time = 1s;
  ExamplesPerSecondHook hook({.clock = session.clock()});
  const LogLines log;
  session.run(hook, 100);
  EXPECT_THAT(log.lines, SizeIs(0));
  session.run(hook);
  EXPECT_THAT(log.lines, SizeIs(1));
}

TEST(ExamplesPerSecondHook, RefusesBothPeriods) {
  EXPECT_THROW(ExamplesPerSecondHook({.every_n_steps = 1, .every_n_secs = 1s}), InvalidArgument);
}

}  // namespace
}  // namespace muster
