#include "muster/train/hooks/final_ops_hook.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

TEST(FinalOpsHook, CallsItsFunctionOnceAtTheEnd) {
  testing::FakeSession session;
  std::vector<std::int64_t> steps;
  FinalOpsHook hook([&](Session& ended) { steps.push_back(ended.global_step()); });
  session.run(hook, 3);
  EXPECT_TRUE(steps.empty());
  hook.end(session);
  EXPECT_EQ(steps, std::vector<std::int64_t>{3});
}

TEST(FinalOpsHook, RefusesAnEmptyFunction) { EXPECT_THROW(FinalOpsHook(nullptr), InvalidArgument); }

}  // namespace
}  // namespace muster
