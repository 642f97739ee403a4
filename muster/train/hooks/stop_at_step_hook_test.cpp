#include "muster/train/hooks/stop_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using testing::FakeSession;

void start_hook(Hook& hook, FakeSession& session) {
  hook.begin(session);
  hook.after_create_session(session);
}

TEST(StopAtStepHook, StopsAtAGlobalStep) {
  FakeSession session;
  session.step = 7;
  StopAtStepHook hook({.last_step = 10});
  start_hook(hook, session);
  session.run(hook, 2);
  EXPECT_FALSE(session.stop_requested());
  session.run(hook);
  EXPECT_THAT(session.stop_reasons, ElementsAre("step 10 is reached"));
}

TEST(StopAtStepHook, StopsAfterSoManySteps) {
  FakeSession session;
  session.step = 7;
  StopAtStepHook hook({.num_steps = 2});
  start_hook(hook, session);
  session.run(hook);
  EXPECT_FALSE(session.stop_requested());
  session.run(hook);
  EXPECT_TRUE(session.stop_requested());
}

TEST(StopAtStepHook, ARollBackDoesNotMoveTheEnd) {
  FakeSession session;
  StopAtStepHook hook({.num_steps = 10});
  start_hook(hook, session);
  session.run(hook, 8);
  session.step = 4;
  hook.after_create_session(session);
  session.run(hook, 5);
  EXPECT_FALSE(session.stop_requested());
  session.run(hook);
  EXPECT_TRUE(session.stop_requested());
}

TEST(StopAtStepHook, StopsWhenOthersHaveGonePastTheEnd) {
  FakeSession session;
  StopAtStepHook hook({.last_step = 10});
  start_hook(hook, session);
  session.step = 14;
  session.run(hook);
  EXPECT_TRUE(session.stop_requested());
}

TEST(StopAtStepHook, ARunThatIsThereAlreadyStopsBeforeItsFirstStep) {
  FakeSession session;
  session.step = 10;
  StopAtStepHook hook({.last_step = 10});
  start_hook(hook, session);
  EXPECT_TRUE(session.stop_requested());
}

TEST(StopAtStepHook, CountsAnewInAnotherRun) {
  FakeSession session;
  StopAtStepHook hook({.num_steps = 2});
  start_hook(hook, session);
  session.run(hook, 2);
  FakeSession second;
  second.step = 2;
  start_hook(hook, second);
  second.run(hook);
  EXPECT_FALSE(second.stop_requested());
  second.run(hook);
  EXPECT_TRUE(second.stop_requested());
}

TEST(StopAtStepHook, WantsExactlyOnePositiveEnd) {
  EXPECT_THROW(StopAtStepHook({}), InvalidArgument);
  EXPECT_THROW(StopAtStepHook({.num_steps = 1, .last_step = 1}), InvalidArgument);
  EXPECT_THROW(StopAtStepHook({.num_steps = 0}), InvalidArgument);
  EXPECT_THROW(StopAtStepHook({.last_step = -1}), InvalidArgument);
}

}  // namespace
}  // namespace muster
