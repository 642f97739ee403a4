#include "muster/train/hooks/stop_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeSession;

TEST(StopAtTimeHook, StopsAfterTheFirstStepThatEndsPastTheLimit) {
  FakeSession session;
  session.now += 100h;
  session.step_time = 1s;
  StopAtTimeHook hook(3s, session.clock());
  session.now += 1h;  // the time before the run does not count
  hook.begin(session);
  session.run(hook, 3);
  EXPECT_FALSE(session.stop_requested()) << "a step that ends at the limit is in time";
  session.run(hook);
  EXPECT_THAT(session.stop_reasons, ElementsAre("the time limit of 3 s is over"));
}

TEST(StopAtTimeHook, RefusesALimitThatIsNone) {
  EXPECT_THROW(StopAtTimeHook(0s), InvalidArgument);
  EXPECT_THROW(StopAtTimeHook(-1s), InvalidArgument);
}

}  // namespace
}  // namespace muster
