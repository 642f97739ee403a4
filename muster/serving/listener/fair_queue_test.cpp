#include "muster/serving/listener/fair_queue.h"
#include "muster/base/semaphore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace muster::serving {
namespace {

using ::testing::ElementsAre;

/// A queue whose only worker is held until release().
class FairQueueTest : public ::testing::Test {
 protected:
  void hold(FairQueue& queue) {
    thread_ = std::jthread([&] {
      queue.run_or_wait("first", [&] {
        begun_.release();
        go_.acquire();
      });
    });
    begun_.acquire();
  }
  void release() {
    go_.release();
    thread_.join();
  }
  FairQueue::Job noting(const std::string& name) {
    return [this, name] { order_.push_back(name); };
  }

  Semaphore begun_{0};
  Semaphore go_{0};
  std::jthread thread_;
  std::vector<std::string> order_;
};

TEST_F(FairQueueTest, RunsInTheThreadThatBringsAJob) {
  FairQueue queue({.running = 1});
  std::thread::id id;
  EXPECT_TRUE(queue.run_or_wait("a", [&] { id = std::this_thread::get_id(); }));
  EXPECT_EQ(id, std::this_thread::get_id());
}

TEST_F(FairQueueTest, LetsOwnersTakeTurns) {
  FairQueue queue({.running = 1});
  hold(queue);
  for (const char* name : {"a", "a", "a", "b", "c"}) queue.run_or_wait(name, noting(name));
  EXPECT_EQ(queue.waiting(), 5);
  release();
  EXPECT_THAT(order_, ElementsAre("a", "b", "c", "a", "a"));
}

TEST_F(FairQueueTest, SharesItsRoomBetweenOwners) {
  FairQueue queue({.running = 1, .waiting = 4});
  hold(queue);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.run_or_wait("a", noting("a")));
  EXPECT_FALSE(queue.run_or_wait("a", noting("a")));
  // One that comes late has its share all the same.
  EXPECT_TRUE(queue.run_or_wait("b", noting("b")));
  EXPECT_TRUE(queue.run_or_wait("b", noting("b")));
  EXPECT_FALSE(queue.run_or_wait("b", noting("b")));
  EXPECT_TRUE(queue.run_or_wait("c", noting("c")));
  EXPECT_FALSE(queue.run_or_wait("c", noting("c")));
  EXPECT_TRUE(queue.run_or_wait("d", noting("d")));
  // However many owners there are, what waits has an end.
  EXPECT_FALSE(queue.run_or_wait("e", noting("e")));
  release();
  EXPECT_EQ(order_.size(), 8);
  EXPECT_TRUE(queue.run_or_wait("a", noting("a")));
}

TEST_F(FairQueueTest, KeepsAWorkerForOthers) {
  FairQueue queue({.running = 4});
  Semaphore begun(0);
  Semaphore go(0);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      queue.run_or_wait("a", [&] {
        begun.release();
        go.acquire();
      });
    });
  }
  for (int i = 0; i < 3; ++i) begun.acquire();
  queue.run_or_wait("a", noting("a"));
  EXPECT_EQ(queue.waiting(), 1);
  queue.run_or_wait("b", noting("b"));
  EXPECT_THAT(order_, ElementsAre("b"));
  go.release(3);
  threads.clear();
  EXPECT_THAT(order_, ElementsAre("b", "a"));
}

TEST_F(FairQueueTest, AJobThatMayRunIsRunByAnyThreadAndWithItWhatWaits) {
  FairQueue queue({.running = 1, .waiting = 1});
  FairQueue::Job first = noting("first");
  FairQueue::Job second = noting("second");
  FairQueue::Job third = noting("third");
  EXPECT_EQ(queue.offer("a", first), FairQueue::Place::kRuns);
  EXPECT_EQ(queue.offer("a", second), FairQueue::Place::kWaits);
  EXPECT_EQ(queue.offer("a", third), FairQueue::Place::kNone);
  // No job has run yet, and the one without a place is as it was.
  EXPECT_THAT(order_, ElementsAre());
  EXPECT_TRUE(third);
  std::jthread([&] { queue.run("a", first); }).join();
  EXPECT_THAT(order_, ElementsAre("first", "second"));
  EXPECT_EQ(queue.offer("a", third), FairQueue::Place::kRuns);
}

TEST_F(FairQueueTest, DropsWhatWaitsWhenItIsClosed) {
  FairQueue queue({.running = 1});
  hold(queue);
  queue.run_or_wait("a", noting("a"));
  queue.close();
  EXPECT_EQ(queue.waiting(), 0);
  EXPECT_FALSE(queue.run_or_wait("a", noting("a")));
  release();
  EXPECT_THAT(order_, ElementsAre());
}

}  // namespace
}  // namespace muster::serving
