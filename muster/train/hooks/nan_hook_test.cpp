#include "muster/train/hooks/stop_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using testing::FakeSession;
using ::testing::HasSubstr;
using testing::LogLines;

TEST(NanHook, ThrowsWithTheStepWhenTheLossIsNan) {
  FakeSession session;
  session.step = 41;
  session.loss_value = std::nan("");
  NanHook hook;
  try {
    session.run(hook);
    FAIL() << "a NaN passed";
  } catch (const FailedPrecondition& error) {
    EXPECT_THAT(error.what(), HasSubstr("NaN loss during training: step=42"));
  }
}

TEST(NanHook, WarnsAndStopsWhenToldNotToFail) {
  FakeSession session;
  session.loss_value = std::nan("");
  NanHook hook(/*fail_on_nan_loss=*/false);
  const LogLines log;
  session.run(hook);
  EXPECT_THAT(session.stop_reasons, ElementsAre("the loss is NaN"));
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("loss = NaN: step=1")));
}

TEST(NanHook, LetsEveryOtherLossPass) {
  FakeSession session;
  NanHook hook;
  for (const double loss : {0.0, -1.0, 1e300, std::numeric_limits<double>::infinity()}) {
    session.loss_value = loss;
    EXPECT_NO_THROW(session.run(hook));
  }
  EXPECT_FALSE(session.stop_requested());
}

}  // namespace
}  // namespace muster
