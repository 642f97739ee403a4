#include "muster/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster {
namespace {

TEST(ThreadPool, RunsEveryJob) {
  constexpr int kJobs = 500;
  std::atomic<int> count{0};
  std::latch done(kJobs);
  ThreadPool pool(3);
  for (int i = 0; i < kJobs; ++i) {
    pool.submit([&](const std::stop_token&) {
      ++count;
      done.count_down();
    });
  }
  done.wait();
  EXPECT_EQ(count, kJobs);
}

TEST(ThreadPool, StopsRunningJobsAndDropsWaitingOnesWhenDestroyed) {
  std::atomic<bool> second_ran{false};
  std::latch started(1);
  {
    ThreadPool pool(1);
    pool.submit([&](const std::stop_token& stop) {
      started.count_down();
      while (!stop.stop_requested()) std::this_thread::yield();
    });
    pool.submit([&](const std::stop_token&) { second_ran = true; });
    started.wait();
  }
  EXPECT_FALSE(second_ran);
}

TEST(ThreadPool, LogsWhatAJobThrowsAndGoesOn) {
  std::string line;
  log::set_sink([&](log::Level, std::string_view text) { line = text; });
  std::latch done(1);
  {
    ThreadPool pool(1);
    pool.submit([](const std::stop_token&) { throw DataLoss("torn block"); });
    pool.submit([&](const std::stop_token&) { done.count_down(); });
    done.wait();
  }
  log::set_sink({});
  EXPECT_NE(line.find("torn block"), std::string::npos);
}

TEST(ThreadPool, ZeroThreadsMeansOneAProcessor) {
  EXPECT_EQ(ThreadPool(0).size(), ThreadPool::available_processors());
}

}  // namespace
}  // namespace muster
