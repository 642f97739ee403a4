#include "muster/serving/listener/blocking_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <set>
#include <thread>

namespace muster::serving {
namespace {

TEST(BlockingPool, RunsAsManyJobsAtOnceAsItHasThreads) {
  BlockingPool threads({.threads = 3, .waiting = 1});
  // Ends only when three jobs run at one time.
  std::latch all(3);
  std::latch done(3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(threads.run([&] {
      all.arrive_and_wait();
      done.count_down();
    }));
  }
  done.wait();
}

TEST(BlockingPool, RefusesWhatHasNoRoom) {
  std::latch running(1);
  std::latch go_on(1);
  std::atomic<int> count{0};
  {
    BlockingPool threads({.threads = 1, .waiting = 2});
    EXPECT_TRUE(threads.run([&] {
      running.count_down();
      go_on.wait();
    }));
    running.wait();
    EXPECT_TRUE(threads.run([&] { ++count; }));
    EXPECT_TRUE(threads.run([&] { ++count; }));
    EXPECT_FALSE(threads.run([&] { count += 100; }));
    go_on.count_down();
  }
  // Waiting jobs were run before the end.
  EXPECT_EQ(count, 2);
}

TEST(BlockingPool, NeedsNoMoreThreadsThanThereAreJobsAtOnce) {
  std::set<std::thread::id> seen;
  BlockingPool threads({.threads = 64, .waiting = 1});
  for (int i = 0; i < 100; ++i) {
    std::latch done(1);
    ASSERT_TRUE(threads.run([&] {
      seen.insert(std::this_thread::get_id());
      done.count_down();
    }));
    done.wait();
  }
  // One more than one: the next job may come before the thread of the last is idle.
  EXPECT_LT(seen.size(), 64);
}

}  // namespace
}  // namespace muster::serving
