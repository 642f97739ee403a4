#include <gtest/gtest.h>

#include "muster/serving/core/batch_times.h"

namespace muster::serving {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = BatchTimes::Clock::time_point;
using Duration = BatchTimes::Clock::duration;

// Batches that take so long, each after the last.
Time compute(BatchTimes& times, Time now, int count, Duration each, bool others_wait) {
  for (int i = 0; i < count; ++i) {
    times.begin(now, others_wait);
    now += each;
    times.end(now, each);
  }
  return now;
}

// To the millisecond; a moving average gets near a value.
auto rounded(Duration time) { return std::chrono::round<milliseconds>(time).count(); }

TEST(BatchTimes, ExpectsNothingOfWhatHasNotBeenMeasured) {
  const BatchTimes times(1);
  EXPECT_FALSE(times.usual());
  EXPECT_EQ(times.of_one(Time(seconds(100))), Duration::zero());
  EXPECT_EQ(times.until_begun(1000, Time(seconds(100))), Duration::zero());
}

TEST(BatchTimes, ExpectsWhatBatchesTook) {
  BatchTimes times(2);
  const Time now = compute(times, Time(seconds(100)), 100, milliseconds(16), false);
  EXPECT_EQ(rounded(*times.usual()), 16);
  EXPECT_EQ(rounded(times.of_one(now)), 16);
  // Two at a time, and a quarter to spare.
  EXPECT_EQ(rounded(times.until_begun(100, now)), 50 * 20);
  EXPECT_EQ(times.until_begun(1, now), Duration::zero());
}

TEST(BatchTimes, WaitsGoByTheTimeFromBatchToBatch) {
  BatchTimes times(1);
  Time now(seconds(100));
  for (int i = 0; i < 100; ++i) {  // 10 ms each, of which the model takes 4.
    times.begin(now, /*others_wait=*/true);
    times.end(now + milliseconds(4), milliseconds(4));
    now += milliseconds(10);
  }
  EXPECT_EQ(rounded(times.of_one(now)), 4);
  EXPECT_EQ(rounded(times.until_begun(80, now)), 1000);
}

TEST(BatchTimes, AFewFastBatchesDoNotChangeThePaceOfMany) {
  BatchTimes times(1);
  Time now = compute(times, Time(seconds(100)), 100, milliseconds(10), true);
  now = compute(times, now, 8, milliseconds(1), true);
  EXPECT_GT(rounded(times.until_begun(80, now)), 850);
  now = compute(times, now, 500, milliseconds(1), true);
  EXPECT_EQ(rounded(times.until_begun(80, now)), 100);
}

TEST(BatchTimes, TheTimeInWhichNothingWaitsIsNoWait) {
  BatchTimes times(1);
  Time now = compute(times, Time(seconds(100)), 100, milliseconds(10), true);
  times.nothing_waits();
  now = compute(times, now + milliseconds(500), 2, milliseconds(10), false);
  EXPECT_EQ(rounded(times.until_begun(80, now)), 1000);
}

TEST(BatchTimes, OneSlowBatchDoesNotCountForEver) {
  BatchTimes times(1);
  Time now = compute(times, Time(seconds(100)), 1, seconds(80), false);
  EXPECT_EQ(times.of_one(now + seconds(9)), seconds(10));
  EXPECT_EQ(times.of_one(now + seconds(11)), Duration::zero());
  now = compute(times, now + seconds(11), 1, milliseconds(8), false);
  EXPECT_EQ(rounded(times.of_one(now)), 8);
}

TEST(BatchTimes, AMachineThatStoodStillIsNotTakenForSlow) {
  BatchTimes times(1);
  Time now = compute(times, Time(seconds(100)), 100, milliseconds(16), true);
  now += std::chrono::hours(1);
  times.begin(now, true);
  times.end(now += milliseconds(16), milliseconds(16));
  EXPECT_EQ(rounded(times.until_begun(100, now)), 2000);
}

TEST(BatchTimes, WhatIsKnownCountsAsLongAsABatchIsComputed) {
  BatchTimes times(1);
  Time now = compute(times, Time(seconds(100)), 100, milliseconds(16), false);
  times.begin(now, false);
  EXPECT_EQ(rounded(times.of_one(now + seconds(1000))), 16);
}

TEST(BatchTimes, RemembersOneThatTookLongWithoutWarning) {
  BatchTimes times(1);
  constexpr milliseconds kLimit(1);
  EXPECT_TRUE(times.may_take(kLimit, Time(seconds(1))));
  Time now = compute(times, Time(seconds(1)), 100, microseconds(50), false);
  EXPECT_FALSE(times.may_take(kLimit, now));
  now = compute(times, now, 1, milliseconds(300), false);
  const Time surprised = now;
  now = compute(times, now, 1000, microseconds(50), false);
  EXPECT_LT(*times.usual(), kLimit);
  EXPECT_TRUE(times.may_take(kLimit, now));
  EXPECT_TRUE(times.may_take(kLimit, surprised + seconds(30)));
  EXPECT_FALSE(times.may_take(kLimit, surprised + seconds(31)));
  // A machine that stood still for a moment.
  now = compute(times, surprised + seconds(31), 1, milliseconds(5), false);
  EXPECT_FALSE(times.may_take(kLimit, now));
  times.begin(now, /*others_wait=*/false);
  times.begin(now + milliseconds(2), /*others_wait=*/false);
  EXPECT_TRUE(times.may_take(kLimit, now + milliseconds(2)));
  times.end(now + milliseconds(2), milliseconds(2));
  EXPECT_FALSE(times.may_take(kLimit, now + milliseconds(2)));
}

}  // namespace
}  // namespace muster::serving
