#include "muster/serving/listener/event_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "muster/base/semaphore.h"

namespace muster::serving {
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

TEST(EventLoop, RunsInAnotherThreadWhatOneOfThemPosts) {
  EventLoop loop(2);
  EXPECT_EQ(loop.this_thread(), std::nullopt);
  std::optional<std::size_t> first;
  std::optional<std::size_t> posted;
  std::optional<std::size_t> deferred;
  Semaphore done(0);
  for (int i = 0; i < 4; ++i) {
    loop.post([&] {
      first = loop.this_thread();
      loop.post([&] {
        posted = loop.this_thread();
        done.release();
      });
      loop.defer([&] {
        deferred = loop.this_thread();
        done.release();
      });
    });
    done.acquire();
    done.acquire();
    EXPECT_NE(posted, first);
    EXPECT_EQ(deferred, first);
  }
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
}  // namespace muster::serving
