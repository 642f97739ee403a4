#include "muster/base/bounded_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "muster/base/error.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

const WaitReason kReason = [] { return "the test queue"; };

TEST(BoundedQueue, KeepsOrderAndMovesItems) {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  EXPECT_TRUE(queue.push(std::make_unique<int>(1), kReason));
  EXPECT_TRUE(queue.push(std::make_unique<int>(2), kReason));
  EXPECT_EQ(**queue.pop(kReason), 1);
  EXPECT_EQ(**queue.pop(kReason), 2);
}

TEST(BoundedQueue, NamesTheReasonWhenFullOrEmptyTooLong) {
  BoundedQueue<int> queue(1);
  EXPECT_THROW(queue.pop(kReason, Deadline::after(1ms)), DeadlineExceeded);
  EXPECT_TRUE(queue.push(1, kReason));
  EXPECT_THROW(queue.push(2, kReason, Deadline::after(1ms)), DeadlineExceeded);
}

TEST(BoundedQueue, HandsOutWhatIsLeftAfterClosing) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.push(1, kReason));
  queue.close();
  EXPECT_FALSE(queue.push(2, kReason));
  EXPECT_EQ(queue.pop(kReason), 1);
  EXPECT_EQ(queue.pop(kReason), std::nullopt);
}

TEST(BoundedQueue, CloseWakesABlockedProducerAndConsumer) {
  BoundedQueue<int> full(1);
  BoundedQueue<int> empty(1);
  EXPECT_TRUE(full.push(1, kReason));
  std::jthread producer([&] { EXPECT_FALSE(full.push(2, kReason)); });
  std::jthread consumer([&] { EXPECT_EQ(empty.pop(kReason), std::nullopt); });
  full.close();
  empty.close();
}

TEST(BoundedQueue, LosesNothingBetweenManyThreads) {
  BoundedQueue<int> queue(3);
  constexpr int kEach = 2'000;
  std::vector<long> sums(2);
  {
    std::vector<std::jthread> consumers;
    for (auto& sum : sums) {
      consumers.emplace_back([&queue, &sum] {
        while (auto item = queue.pop(kReason)) sum += *item;
      });
    }
    {
      std::vector<std::jthread> producers;
      for (int p = 0; p < 2; ++p) {
        producers.emplace_back([&queue] {
          for (int i = 1; i <= kEach; ++i) EXPECT_TRUE(queue.push(i, kReason));
        });
      }
    }
    queue.close();
  }
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0L), 2L * kEach * (kEach + 1) / 2);
  EXPECT_EQ(queue.stats().popped, 2U * kEach);
  EXPECT_EQ(queue.stats().depth, 0U);
}

}  // namespace
}  // namespace muster
