#include "muster/orchestration/jobs/pace.h"

#include <gtest/gtest.h>

namespace muster::jobs {
namespace {

TEST(Pace, CountsEvaluationsAndTheLastOne) {
  Pace pace;
  double seconds = 0;
  // A second for a hundred steps, and four more for the evaluation after every thousand.
  for (std::int64_t step = 100; step <= 6000; step += 100) {
    seconds += step % 1000 == 100 && step > 100 ? 5 : 1;
    pace.add(seconds, step);
  }
  // 40 s of training, evaluations of 4 s after 7,000, 8,000 and 9,000 steps and at the end; the one
  // at 6,000 is under way.
  EXPECT_NEAR(*pace.seconds_to(10'000), 60, 5);
}

TEST(Pace, IsThatOfTheLaterHalf) {
  Pace pace;
  double seconds = 0;
  for (std::int64_t step = 1; step <= 100; ++step) pace.add(seconds += step <= 40 ? 10 : 1, step);
  EXPECT_DOUBLE_EQ(*pace.seconds_to(150), 50);
  EXPECT_DOUBLE_EQ(*pace.seconds_to(50), 0);
}

TEST(Pace, BeginsAnewAfterARestart) {
  Pace pace;
  pace.add(0, 100);
  pace.add(1, 200);
  EXPECT_EQ(pace.seconds_to(400), std::nullopt);
  pace.add(2, 300);
  EXPECT_DOUBLE_EQ(*pace.seconds_to(400), 1);
  // An hour later, from the checkpoint of step 200.
  pace.add(3600, 200);
  EXPECT_EQ(pace.seconds_to(400), std::nullopt);
  pace.add(3602, 300);
  pace.add(3604, 400);
  EXPECT_DOUBLE_EQ(*pace.seconds_to(500), 2);
}

}  // namespace
}  // namespace muster::jobs
