#include "muster/train/engine/nan_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>
#include <vector>

#include "muster/base/error.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header

std::vector<std::optional<Batch>> one_batch(float value) {
  return {make_batch({{"x", torch::full({1, 1}, value)}}, torch::zeros({1, 1}))};
}

TEST(NanGuard, CountsUpToItsLimitAndThenStops) {
  NanGuard guard({.action = NanPolicy::Action::kSkipBatch, .limit = 2}, NanGuard::Steps::kOnHost);
  EXPECT_EQ(guard.count("loss", 4), NanPolicy::Action::kSkipBatch);
  EXPECT_EQ(guard.count("gradient", 5), NanPolicy::Action::kSkipBatch);
  EXPECT_EQ(guard.bad_steps(), 2);
  EXPECT_THAT(
      error_of([&] { guard.count("loss", 6); }),
      AllOf(HasSubstr("the loss of step 6 is not finite"), HasSubstr("2 such steps are allowed")));
}

TEST(NanGuard, AllowsNoStepWhereItsPolicyStops) {
  NanGuard stopping({}, NanGuard::Steps::kOnHost);
  EXPECT_THROW(stopping.count("loss", 1), Aborted);
  EXPECT_THROW(stopping.stop_if_none_allowed("loss", 1), Aborted);
  const NanGuard skipping({.action = NanPolicy::Action::kSkipBatch}, NanGuard::Steps::kOnHost);
  EXPECT_NO_THROW(skipping.stop_if_none_allowed("loss", 1));
}

TEST(NanGuard, NamesTheInputThatIsNotFinite) {
  NanGuard guard({}, NanGuard::Steps::kOnHost);
  guard.inspect(one_batch(std::numeric_limits<float>::infinity()));
  EXPECT_THAT(
      error_of([&] { guard.stop_for("loss", 1); }),
      AllOf(HasSubstr("the feature \"x\" of replica 0 is inf"), HasSubstr("mend the input")));
  guard.inspect(one_batch(1));
  EXPECT_THAT(error_of([&] { guard.stop_for("loss", 2); }),
              AllOf(HasSubstr("all numbers of its input are"), Not(HasSubstr("mend"))));
}

TEST(NanGuard, AdvisesByWhereStepsAreMade) {
  const NanGuard of_several({}, NanGuard::Steps::kOnHostOfSeveral);
  EXPECT_THAT(error_of([&] { of_several.stop_for("loss", 1); }),
              HasSubstr("other tasks tell of theirs"));
  const NanGuard on_device({}, NanGuard::Steps::kOnDevice);
  EXPECT_THAT(error_of([&] { on_device.stop_for("loss", 1); }),
              HasSubstr("look for bad values in the input"));
}

TEST(NanGuard, KnowsTheBatchesThatAreSkippedAfterARollBack) {
  NanGuard guard({.action = NanPolicy::Action::kRollBack}, NanGuard::Steps::kOnHost);
  EXPECT_EQ(guard.count("loss", 3), NanPolicy::Action::kRollBack);
  guard.skip_batch(2);
  EXPECT_TRUE(guard.skips_batch(2));
  EXPECT_FALSE(guard.skips_batch(3));
}

}  // namespace
}  // namespace muster
