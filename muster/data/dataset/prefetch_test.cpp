#include "muster/data/dataset/prefetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "muster/base/log.h"
#include "muster/base/semaphore.h"
#include "muster/base/wait.h"
#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

TEST(Prefetch, ChangesNothingInTheStream) {
  for (const std::size_t count : {1, 2, 7, 1000}) {
    EXPECT_EQ(drain(range(5000).prefetch(count)), drain(range(5000)));
  }
}

TEST(Prefetch, MakesElementsInAnotherThreadAheadOfTheConsumer) {
  const auto consumer = std::this_thread::get_id();
  Semaphore made(0);
  auto iterator = range(10)
                      .map([&](std::int64_t value) {
                        EXPECT_NE(std::this_thread::get_id(), consumer);
                        made.release();
                        return value;
                      })
                      .prefetch(3)
                      .iterate();
  iterator->next();
  for (int i = 0; i < 4; ++i) made.acquire();  // one taken, three ahead
}

// A training that evaluates takes nothing for minutes.
TEST(Prefetch, DoesNotReportThatItsConsumerTakesNothing) {
  std::atomic<int> reports{0};
  log::set_sink([&](log::Level, std::string_view) { ++reports; });
  const auto before = stall_after();
  set_stall_after(std::chrono::milliseconds(1));
  {
    std::latch made(1);
    auto iterator = range(10)
                        .map([&](std::int64_t value) {
                          if (value == 3) made.count_down();
                          return value;
                        })
                        .prefetch(3)
                        .iterate();
    iterator->next();
    made.wait();
    // On a busy machine next() waited too, and told so.
    reports = 0;
    // Many times the age at which a wait is reported.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  set_stall_after(before);
  log::set_sink(nullptr);
  EXPECT_EQ(reports, 0);
}

TEST(Prefetch, NeverMakesMoreThanItHasRoomFor) {
  std::atomic<std::int64_t> made{0};
  auto iterator = range(1000)
                      .map([&](std::int64_t value) {
                        ++made;
                        return value;
                      })
                      .prefetch(5)
                      .iterate();
  for (std::int64_t taken = 1; taken <= 1000; ++taken) {
    iterator->next();
    EXPECT_LE(made, taken + 5);
  }
}

TEST(Prefetch, SavesThePlaceOfTheConsumerAndNotItsOwn) {
  Semaphore made(0);
  const auto dataset = range(100)
                           .map([&](std::int64_t value) {
                             made.release();
                             return value;
                           })
                           .prefetch(10);
  auto iterator = dataset.iterate();
  iterator->next();
  // One that was given and nine that are ready: the tenth has room only where pieces of two, which
  // come with speed, do not follow an odd number of single ones.
  for (int i = 0; i < 10; ++i) made.acquire();
  auto resumed = dataset.iterate(iterator->save());
  EXPECT_EQ(resumed->next(), 1);
}

TEST(Prefetch, SavesBeforeTheFirstElementAndAfterTheLast) {
  const auto dataset = range(3).prefetch(2).prefetch(2);
  auto iterator = dataset.iterate();
  EXPECT_EQ(drain(*dataset.iterate(iterator->save())).size(), 3u);
  drain(*iterator);
  const std::string end = iterator->save();
  auto resumed = dataset.iterate(end);
  EXPECT_EQ(resumed->next(), std::nullopt);
  EXPECT_EQ(dataset.iterate(resumed->save())->next(), std::nullopt);
}

TEST(Prefetch, RefusesARoomOfZero) { EXPECT_THROW(range(3).prefetch(0), InvalidArgument); }

}  // namespace
}  // namespace muster
