#include "muster/train/hooks/global_step_waiter_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeSession;
using ::testing::HasSubstr;
using testing::LogLines;

TEST(GlobalStepWaiterHook, WaitsBeforeTheFirstStepOnly) {
  FakeSession session;
  int polls = 0;
  GlobalStepWaiterHook hook({.wait_until_step = 5,
                             .poll_period = 0ms,
                             .current_step = [&](Session&) { return polls++; }});
  session.run(hook);
  EXPECT_EQ(polls, 6);
  session.run(hook, 3);
  EXPECT_EQ(polls, 6);
}

TEST(GlobalStepWaiterHook, LogsEveryThousandSteps) {
  FakeSession session;
  std::int64_t step = 0;
  GlobalStepWaiterHook hook({.wait_until_step = 2500,
                             .poll_period = 0ms,
                             .current_step = [&](Session&) { return step += 500; }});
  const LogLines log;
  session.run(hook);
  EXPECT_THAT(log.lines,
              ElementsAre("Waiting for global step 2500 before starting training.",
                          "Waiting for global step 2500 before starting training. Current step is "
                          "1500."));
}

TEST(GlobalStepWaiterHook, NamesBothStepsWhenTheTimeIsOver) {
  FakeSession session;
  session.step = 3;
  GlobalStepWaiterHook hook({.wait_until_step = 1000, .timeout = 0ms});
  try {
    hook.before_run(session);
    FAIL() << "it did not wait";
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("for global step 1000: it is 3"));
  }
}

TEST(GlobalStepWaiterHook, ARunThatIsAskedToStopWaitsNoLonger) {
  FakeSession session;
  GlobalStepWaiterHook hook(
      {.wait_until_step = 1000, .poll_period = 0ms, .current_step = [](Session& s) {
         s.request_stop("enough");
         return std::int64_t{0};
       }});
  hook.before_run(session);
  EXPECT_TRUE(session.stop_requested());
}

TEST(GlobalStepWaiterHook, StartsAtOnceWhenThereIsNothingToWaitFor) {
  FakeSession session;
  session.step = 10;
  const LogLines log;
  GlobalStepWaiterHook reached({.wait_until_step = 10, .timeout = 0ms});
  reached.before_run(session);
  GlobalStepWaiterHook none({.timeout = 0ms});
  none.before_run(session);
  EXPECT_TRUE(log.lines.empty());
}

}  // namespace
}  // namespace muster
