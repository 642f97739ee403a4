#include "muster/server/event_loop_internal.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "muster/base/semaphore.h"

namespace muster::server {
namespace {

TEST(EventLoop, RunsWhatIsPostedInAThreadOfItsOwn) {
  EventLoop loop(2);
  std::thread::id where;
  Semaphore done(0);
  loop.post([&] {
    where = std::this_thread::get_id();
    done.release();
  });
  done.acquire();
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(EventLoop, RunsWhatIsDeferredWhenTheThreadIsDone) {
  EventLoop loop(2);
  std::atomic<int> order{0};
  int first = 0;
  int second = 0;
  Semaphore done(0);
  loop.post([&] {
    loop.defer([&] {
      second = ++order;
      done.release();
    });
    first = ++order;
  });
  done.acquire();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST(EventLoop, LeavesAThreadToWaitForSockets) {
  EventLoop loop(3);
  Semaphore begun(0);
  Semaphore go(0);
  Semaphore ended(0);
  const auto hold = [&] {
    begun.release();
    go.acquire();
  };
  for (int i = 0; i < 2; ++i) {
    loop.post([&] {
      EXPECT_TRUE(loop.run_here(hold));
      ended.release();
    });
    begun.acquire();
  }
  loop.post([&] {
    EXPECT_FALSE(loop.run_here(hold));
    ended.release();
  });
  ended.acquire();
  go.release(2);
  ended.acquire();
  ended.acquire();
  loop.post([&] {
    EXPECT_TRUE(loop.run_here([] {}));
    ended.release();
  });
  ended.acquire();
}

TEST(EventLoop, RunsAJobAtTheTimeThatWasSetLast) {
  EventLoop loop;
  Semaphore done(0);
  EventLoop::Timer timer(loop, [&] { done.release(); });
  timer.set(EventLoop::Clock::now() + std::chrono::hours(1));
  timer.set(EventLoop::Clock::now());
  done.acquire();
  timer.set(EventLoop::Clock::now());
  done.acquire();
}

TEST(EventLoop, DropsWhatHasNotBegunAtItsEnd) {
  std::atomic<bool> ran{false};
  {
    EventLoop loop;
    const EventLoop::Timer timer(loop, [&] { ran = true; });
    EventLoop::Timer(loop, [&] {
      ran = true;
    }).set(EventLoop::Clock::now() + std::chrono::hours(1));
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace muster::server
