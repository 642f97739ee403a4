#include "muster/serving/core/batch_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <span>
#include <thread>

#include "muster/base/compute_deadline.h"
#include "muster/base/error.h"
#include "muster/base/semaphore.h"
#include "muster/serving/listener/event_loop.h"
#include "muster/testing/eventually.h"
#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

using graph::TensorValue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensors input_of(const std::vector<float>& values) {
  return {{"x", TensorValue::vector<float>(values)}};
}

std::vector<float> output_of(const BatchAnswer& answer) {
  return answer.outputs.at("y").values<float>();
}

// Doubles its rows, refuses negative ones; the first call waits until it is let go.
class Doubler {
 public:
  Tensors operator()(const Tensors& inputs) {
    const auto values = inputs.at("x").values<float>();
    {
      const std::lock_guard lock(mutex_);
      sizes_.push_back(values.size());
      rows_.insert(rows_.end(), values.begin(), values.end());
    }
    if (calls_++ == 0 && holds_first_) {
      entered_.release();
      go_.acquire();
    }
    std::vector<float> out;
    for (const float value : values) {
      if (value < 0) throw InvalidArgument("negative: {}", value);
      out.push_back(2 * value);
    }
    return {{"y", TensorValue::vector<float>(out)}};
  }

  void hold_first() { holds_first_ = true; }
  void wait_for_first() { entered_.acquire(); }
  void let_go() { go_.release(); }
  // In the order in which they were computed.
  std::vector<float> rows() {
    const std::lock_guard lock(mutex_);
    return rows_;
  }
  std::vector<std::size_t> sizes() {
    const std::lock_guard lock(mutex_);
    return sizes_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::size_t> sizes_;
  std::vector<float> rows_;
  std::atomic<int> calls_{0};
  bool holds_first_ = false;
  Semaphore entered_{0};
  Semaphore go_{0};
};

class BatchQueueTest : public ::testing::Test {
 protected:
  BatchQueue& open(BatchOptions options = {}, bool joinable = true) {
    queue_.emplace(std::make_shared<ExecutionSlots>(1), std::move(options), joinable,
                   [this](const Tensors& inputs) { return model_(inputs); });
    return *queue_;
  }

  // Keeps the only slot busy until let_go().
  std::jthread hold_slot() {
    model_.hold_first();
    std::jthread first([this] { queue_->run(input_of({100})); });
    model_.wait_for_first();
    return first;
  }

  void wait_until_waiting(std::size_t count) {
    EXPECT_TRUE(testing::eventually([&] { return queue_->waiting() == count; }));
  }

  Doubler model_;
  std::optional<BatchQueue> queue_;
};

TEST_F(BatchQueueTest, ComputesARequestAlone) {
  const BatchAnswer answer = open().run(input_of({1, 2, 3}));
  EXPECT_THAT(output_of(answer), ElementsAre(2, 4, 6));
  EXPECT_EQ(answer.batch_rows, 3);
}

TEST_F(BatchQueueTest, JoinsRequestsThatWaitWhileTheSlotIsBusy) {
  open();
  std::jthread first = hold_slot();
  std::vector<BatchAnswer> answers(3);
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      others.emplace_back([&, i] {
        answers[i] = queue_->run(input_of({static_cast<float>(i), static_cast<float>(10 * i)}));
      });
      wait_until_waiting(i + 1);
    }
    model_.let_go();
  }
  EXPECT_THAT(model_.sizes(), ElementsAre(1, 6));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_THAT(output_of(answers[i]), ElementsAre(2.0F * i, 20.0F * i));
    EXPECT_EQ(answers[i].batch_rows, 6);
  }
}

TEST_F(BatchQueueTest, KeepsBatchesWithinTheirSize) {
  open({.max_batch_size = 2});
  std::jthread first = hold_slot();
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 0; i < 5; ++i) {
      others.emplace_back([&] { queue_->run(input_of({1})); });
      wait_until_waiting(i + 1);
    }
    model_.let_go();
  }
  EXPECT_THAT(model_.sizes(), ElementsAre(1, 2, 2, 1));
}

TEST_F(BatchQueueTest, RequestsOfAnotherShapeKeepTheirPlaces) {
  const auto pair_of = [](float value) {
    const std::array<float, 2> values{value, value};
    return Tensors{{"x", TensorValue::of<float>({1, 2}, std::span<const float>(values))}};
  };
  std::vector<std::vector<float>> batches;
  Semaphore entered(0);
  Semaphore go(0);
  BatchQueue queue(std::make_shared<ExecutionSlots>(1), {}, true, [&](const Tensors& inputs) {
    batches.push_back(inputs.at("x").values<float>());
    if (batches.size() == 1) {
      entered.release();
      go.acquire();
    }
    return Tensors{{"y", inputs.at("x")}};
  });
  std::jthread first([&] { queue.run(input_of({100})); });
  entered.acquire();
  {
    std::vector<std::jthread> others;
    for (const auto& inputs :
         {input_of({1}), pair_of(2), input_of({3}), pair_of(4), input_of({5})}) {
      others.emplace_back([&queue, inputs] { queue.run(inputs); });
      EXPECT_TRUE(testing::eventually([&] { return queue.waiting() == others.size(); }));
    }
    go.release();
  }
  EXPECT_THAT(batches,
              ElementsAre(ElementsAre(100), ElementsAre(1, 3, 5), ElementsAre(2, 2, 4, 4)));
}

TEST_F(BatchQueueTest, DoesNotJoinWhatIsNotRowWise) {
  open({}, /*joinable=*/false);
  std::jthread first = hold_slot();
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 0; i < 2; ++i) {
      others.emplace_back([&] { queue_->run(input_of({1, 2})); });
      wait_until_waiting(i + 1);
    }
    model_.let_go();
  }
  EXPECT_THAT(model_.sizes(), ElementsAre(1, 2, 2));
}

TEST_F(BatchQueueTest, AWrongRequestFailsAlone) {
  open();
  std::jthread first = hold_slot();
  BatchAnswer good;
  std::string refusal;
  {
    std::jthread one([&] { good = queue_->run(input_of({3})); });
    wait_until_waiting(1);
    std::jthread two([&] { refusal = testing::message_of([&] { queue_->run(input_of({-1})); }); });
    wait_until_waiting(2);
    model_.let_go();
  }
  EXPECT_THAT(output_of(good), ElementsAre(6));
  EXPECT_THAT(refusal, HasSubstr("negative"));
}

TEST_F(BatchQueueTest, RefusesWhatCannotWait) {
  open({.max_waiting = 1});
  std::jthread first = hold_slot();
  std::jthread second([&] { queue_->run(input_of({1})); });
  wait_until_waiting(1);
  EXPECT_THROW(queue_->run(input_of({1})), ResourceExhausted);
  model_.let_go();
}

TEST_F(BatchQueueTest, ComputesRequestsOfAHigherPriorityFirst) {
  open({.max_batch_size = 1});
  std::jthread first = hold_slot();
  {
    std::vector<std::jthread> others;
    // Rows by which the order is seen: 0 and 9 are the default, which is 2.
    for (const auto& [priority, row] : {std::pair{3, 33}, {0, 20}, {9, 21}, {1, 10}, {1, 11}}) {
      others.emplace_back(
          [&, level = static_cast<std::uint64_t>(priority), value = static_cast<float>(row)] {
            queue_->run(input_of({value}), Deadline::never(), level);
          });
      wait_until_waiting(others.size());
    }
    model_.let_go();
  }
  EXPECT_THAT(model_.rows(), ElementsAre(100, 10, 11, 20, 21, 33));
}

TEST_F(BatchQueueTest, ALowerPriorityMakesRoomForAHigherOne) {
  open({.max_waiting = 2});
  std::jthread first = hold_slot();
  std::string refusal;
  std::jthread kept([&] { queue_->run(input_of({1}), Deadline::never(), 3); });
  wait_until_waiting(1);
  std::jthread dropped([&] {
    refusal = testing::message_of([&] { queue_->run(input_of({2}), Deadline::never(), 3); });
  });
  wait_until_waiting(2);
  std::jthread urgent([&] { queue_->run(input_of({3}), Deadline::never(), 1); });
  dropped.join();
  EXPECT_THAT(refusal, HasSubstr("is full; currently 2 requests wait and 2 may"));
  // None is lower than itself.
  EXPECT_THROW(queue_->run(input_of({4}), Deadline::never(), 3), ResourceExhausted);
  model_.let_go();
  kept.join();
  urgent.join();
  EXPECT_THAT(model_.rows(), ElementsAre(100, 3, 1));
}

TEST_F(BatchQueueTest, HasTheDefaultPriorityAmongItsLevels) {
  EXPECT_THROW(open({.priority_levels = 2, .default_priority_level = 3}), InvalidArgument);
  EXPECT_THROW(open({.default_priority_level = 0}), InvalidArgument);
}

TEST_F(BatchQueueTest, ARequestWhoseTimeIsOverIsNotComputed) {
  open();
  std::jthread first = hold_slot();
  EXPECT_THROW(queue_->run(input_of({1}), Deadline::after(std::chrono::milliseconds(1))),
               DeadlineExceeded);
  EXPECT_EQ(queue_->waiting(), 0U);
  model_.let_go();
  first.join();
  EXPECT_THAT(model_.sizes(), ElementsAre(1));
  EXPECT_THROW(queue_->run(input_of({1}), Deadline::after(std::chrono::seconds(-1))),
               DeadlineExceeded);
  EXPECT_THAT(model_.sizes(), ElementsAre(1));
}

TEST_F(BatchQueueTest, RefusesAtOnceWhatCannotMakeIt) {
  std::atomic<bool> hold{false};
  Semaphore entered(0);
  Semaphore go(0);
  BatchQueue queue(std::make_shared<ExecutionSlots>(1), {.max_batch_size = 1}, true,
                   [&](const Tensors& inputs) {
                     if (hold.exchange(false)) {
                       entered.release();
                       go.acquire();
                     }
                     std::this_thread::sleep_for(std::chrono::milliseconds(20));
                     return Tensors{{"y", inputs.at("x")}};
                   });
  queue.run(input_of({1}));  // The duration of a batch is known from here on.
  hold = true;
  std::jthread first([&] { queue.run(input_of({1})); });
  entered.acquire();
  std::jthread second([&] { queue.run(input_of(std::vector<float>(200'000))); });
  EXPECT_TRUE(testing::eventually([&] { return queue.waiting() == 1; }));
  const Deadline deadline = Deadline::after(std::chrono::minutes(1));
  // However many: a refusal does not make the model faster.
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(queue.run(input_of({1}), deadline), ResourceExhausted);
  }
  EXPECT_FALSE(deadline.expired());
  go.release();
  first.join();
  second.join();
  EXPECT_EQ(output_of(queue.run(input_of({1}), deadline)), std::vector<float>{1});
}

TEST(BatchQueue, WhatComputesABatchKnowsTheLatestDeadlineOfItsRequests) {
  std::mutex mutex;
  std::vector<std::pair<std::size_t, Deadline::Clock::time_point>> seen;
  Semaphore entered{0}, go{0};
  BatchQueue queue(std::make_shared<ExecutionSlots>(1), {}, /*joinable=*/true,
                   [&](const Tensors& inputs) -> Tensors {
                     const auto values = inputs.at("x").values<float>();
                     {
                       const std::lock_guard lock(mutex);
                       seen.emplace_back(values.size(), ComputeDeadline::current().time());
                     }
                     if (seen.size() == 1) {
                       entered.release();
                       go.acquire();
                     }
                     return {{"y", inputs.at("x")}};
                   });
  const Deadline first = Deadline::after(std::chrono::hours(1));
  const Deadline later = Deadline::after(std::chrono::hours(2));
  std::jthread alone([&] { queue.run(input_of({1}), first); });
  entered.acquire();
  std::jthread one([&] { queue.run(input_of({2}), later); });
  std::jthread other([&] { queue.run(input_of({3}), first); });
  EXPECT_TRUE(testing::eventually([&] { return queue.waiting() == 2; }));
  go.release();
  alone.join();
  one.join();
  other.join();
  EXPECT_THAT(seen, ElementsAre(std::pair(1U, first.time()), std::pair(2U, later.time())));
  EXPECT_TRUE(ComputeDeadline::current().is_never());
}

TEST_F(BatchQueueTest, WaitsForOthersAsLongAsItsDelay) {
  open({.max_batch_size = 2, .delay = std::chrono::minutes(10)});
  BatchAnswer one;
  std::jthread first([&] { one = queue_->run(input_of({1})); });
  wait_until_waiting(1);
  const BatchAnswer two = queue_->run(input_of({2}));  // The batch is full.
  first.join();
  EXPECT_THAT(model_.sizes(), ElementsAre(2));
  EXPECT_THAT(output_of(one), ElementsAre(2));
  EXPECT_THAT(output_of(two), ElementsAre(4));
}

TEST_F(BatchQueueTest, FillsBatchesUpToAnAllowedSize) {
  const BatchAnswer answer = open({.allowed_batch_sizes = {4, 8}}).run(input_of({1, 2, 3}));
  EXPECT_THAT(model_.sizes(), ElementsAre(4));
  EXPECT_THAT(output_of(answer), ElementsAre(2, 4, 6));
}

TEST_F(BatchQueueTest, RefusesLargeRequestsWhereThatIsAsked) {
  EXPECT_EQ(testing::message_of([&] {
              open({.max_batch_size = 2, .refuse_large = true}).run(input_of({1, 2, 3}));
            }),
            "Task size 3 is larger than maximum input batch size 2");
}

/// Outcomes of requests that no thread waits for.
class Outcomes {
 public:
  BatchQueue::Done next() {
    return [this, i = count_++](const BatchAnswer& answer, const std::exception_ptr& failure) {
      {
        const std::lock_guard lock(mutex_);
        threads_.insert(std::this_thread::get_id());
        if (failure) {
          failures_[i] = muster::describe(failure).code;
        } else {
          answers_[i] = output_of(answer);
          batch_rows_[i] = answer.batch_rows;
        }
      }
      done_.release();
    };
  }
  void wait(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) done_.acquire();
  }

  std::size_t count_ = 0;
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
  std::map<std::size_t, std::vector<float>> answers_;
  std::map<std::size_t, std::int64_t> batch_rows_;
  std::map<std::size_t, ErrorCode> failures_;
  Semaphore done_{0};
};

TEST(BatchQueueOnALoop, RequestsThatAThreadReadsTogetherShareABatch) {
  const auto loop = std::make_shared<EventLoop>(2);
  Doubler model;
  BatchQueue queue(std::make_shared<ExecutionSlots>(2, loop), {}, true,
                   [&](const Tensors& inputs) { return model(inputs); });
  Outcomes outcomes;
  loop->post([&] {
    for (int i = 0; i < 5; ++i) {
      queue.start(input_of({static_cast<float>(i)}), Deadline::never(), 0, outcomes.next());
    }
  });
  outcomes.wait(5);
  EXPECT_THAT(model.sizes(), ElementsAre(5));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_THAT(outcomes.answers_[i], ElementsAre(2.0F * i));
    EXPECT_EQ(outcomes.batch_rows_[i], 5);
  }
  EXPECT_EQ(outcomes.threads_.size(), 1U);
  EXPECT_FALSE(outcomes.threads_.contains(std::this_thread::get_id()));
}

TEST(BatchQueueOnALoop, ARequestThatComesAloneIsComputedAtOnceUntilOthersComeWithIt) {
  const auto loop = std::make_shared<EventLoop>(1);
  Doubler model;
  BatchQueue queue(std::make_shared<ExecutionSlots>(2, loop), {}, true,
                   [&](const Tensors& inputs) { return model(inputs); });
  Outcomes outcomes;
  const auto start = [&] { queue.start(input_of({1}), Deadline::never(), 0, outcomes.next()); };
  // After what the thread was told to do before, and that it has told itself.
  const auto in_loop = [&](const std::function<void()>& act) {
    Semaphore done(0);
    for (int i = 0; i < 3; ++i) {
      loop->post([&, i] {
        if (i == 0) act();
        done.release();
      });
      done.acquire();
    }
  };
  in_loop(start);  // The first of all: its duration is unknown.
  outcomes.wait(1);
  in_loop([&] {
    start();
    EXPECT_EQ(outcomes.answers_.size(), 2U);
  });
  in_loop([&] {
    start();
    start();
    EXPECT_EQ(outcomes.answers_.size(), 3U);
  });
  in_loop([&] {
    start();
    start();
    EXPECT_EQ(outcomes.answers_.size(), 4U);
  });
  outcomes.wait(5);
  EXPECT_THAT(model.sizes(), ElementsAre(1, 1, 1, 1, 2));
}

TEST_F(BatchQueueTest, RefusesWhatWaitsTooLongAlthoughNobodyComputes) {
  open();
  std::jthread first = hold_slot();
  Outcomes outcomes;
  const auto soon = [](int milliseconds) {
    return Deadline::after(std::chrono::milliseconds(milliseconds));
  };
  // In no order: the timer is for whichever is next.
  queue_->start(input_of({1}), soon(30), 0, outcomes.next());
  queue_->start(input_of({2}), soon(2), 0, outcomes.next());
  queue_->start(input_of({3}), Deadline::never(), 0, outcomes.next());
  outcomes.wait(2);
  EXPECT_EQ(outcomes.failures_[0], ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(outcomes.failures_[1], ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(queue_->waiting(), 1U);
  model_.let_go();
  outcomes.wait(1);
  EXPECT_THAT(outcomes.answers_[2], ElementsAre(6));
}

TEST_F(BatchQueueTest, ComputesAtTheEndOfTheDelayThoughNobodyWaits) {
  open({.delay = std::chrono::milliseconds(1)});
  Outcomes outcomes;
  queue_->start(input_of({1}), Deadline::never(), 0, outcomes.next());
  outcomes.wait(1);
  EXPECT_THAT(outcomes.answers_[0], ElementsAre(2));
}

TEST(BatchQueueOnALoop, StringsOfABatchThatFailsAreGivenBack) {
  const auto loop = std::make_shared<EventLoop>(2);
  BatchQueue queue(std::make_shared<ExecutionSlots>(1, loop), {.allowed_batch_sizes = {4}}, true,
                   [&](const Tensors& inputs) {
                     std::vector<float> sizes;
                     for (const std::string& text : inputs.at("t").strings) {
                       if (text.empty()) throw InvalidArgument("empty");
                       sizes.push_back(static_cast<float>(text.size()));
                     }
                     return Tensors{{"y", TensorValue::vector<float>(sizes)}};
                   });
  Outcomes outcomes;
  const std::string text(40, 'x');
  loop->post([&] {
    for (const std::string& one : {text, std::string(), text + "y"}) {
      queue.start({{"t", TensorValue::of_strings({1}, {one})}}, Deadline::never(), 0,
                  outcomes.next());
    }
  });
  outcomes.wait(3);
  EXPECT_THAT(outcomes.answers_[0], ElementsAre(40));
  EXPECT_EQ(outcomes.failures_[1], ErrorCode::kInvalidArgument);
  EXPECT_THAT(outcomes.answers_[2], ElementsAre(41));
}

TEST(ExecutionSlots, ALongBatchLeavesAThreadToRead) {
  const auto loop = std::make_shared<EventLoop>(2);
  Semaphore entered(0);
  Semaphore go(0);
  BatchQueue queue(std::make_shared<ExecutionSlots>(3, loop), {}, false,
                   [&](const Tensors& inputs) {
                     entered.release();
                     go.acquire();
                     return Tensors{{"y", inputs.at("x")}};
                   });
  Outcomes outcomes;
  for (int i = 0; i < 3; ++i) {
    queue.start(input_of({1}), Deadline::never(), 0, outcomes.next());
    entered.acquire();
  }
  loop->post([&] { go.release(3); });
  outcomes.wait(3);
}

TEST(ExecutionSlots, WhereManyWaitAThreadThatDoesNotReadComputesThem) {
  const auto loop = std::make_shared<EventLoop>(2);
  std::atomic<int> in_loop{0};
  BatchQueue queue(std::make_shared<ExecutionSlots>(1, loop), {}, false,
                   [&](const Tensors& inputs) {
                     std::this_thread::sleep_for(std::chrono::microseconds(300));
                     if (loop->this_thread()) ++in_loop;
                     return Tensors{{"y", inputs.at("x")}};
                   });
  for (int i = 0; i < 20; ++i) queue.run(input_of({1}));  // The duration is known now.
  Outcomes outcomes;
  loop->post([&] {
    for (int i = 0; i < 20; ++i) {
      queue.start(input_of({1}), Deadline::never(), 0, outcomes.next());
    }
  });
  outcomes.wait(20);
  EXPECT_LE(in_loop, 1);  // The first had no request after it.
}

/// A model whose batches begin, and wait until they are let go.
class Held {
 public:
  BatchQueue::Run run() {
    return [this](const Tensors& inputs) {
      most = std::max(most.load(), ++running);
      std::this_thread::sleep_for(takes);
      entered.release();
      go.acquire();
      --running;
      return Tensors{{"y", inputs.at("x")}};
    };
  }

  std::chrono::milliseconds takes{0};
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  Semaphore entered{0};
  Semaphore go{0};
};

TEST(ExecutionSlots, ABatchThatDoesNotEndKeepsNoSlotOfAnotherModel) {
  const auto slots = std::make_shared<ExecutionSlots>(1, std::make_shared<EventLoop>(2));
  Held held;
  Doubler model;
  BatchQueue stuck(slots, {}, false, held.run(), "stuck");
  BatchQueue other(
      slots, {}, true, [&](const Tensors& inputs) { return model(inputs); }, "other");
  Outcomes of_stuck;
  Outcomes of_other;
  const auto is_answered = [&](std::size_t count) {
    return testing::eventually([&] {
      const std::lock_guard lock(of_other.mutex_);
      return of_other.answers_.size() == count;
    });
  };
  for (int i = 0; i < 3; ++i) {
    stuck.start(input_of({1}), Deadline::never(), 0, of_stuck.next());
  }
  held.entered.acquire();
  // The first of all, and those of which it is known what they take.
  for (std::size_t i = 1; i <= 5; ++i) {
    other.start(input_of({1}), Deadline::never(), 0, of_other.next());
    EXPECT_TRUE(is_answered(i));
  }
  EXPECT_EQ(stuck.waiting(), 2U);
  EXPECT_EQ(held.running, 1);
  held.go.release(3);
  of_stuck.wait(3);
  EXPECT_EQ(held.most, 1);
}

TEST(ExecutionSlots, ModelsInDemandHavePartsOfTheSlots) {
  const auto slots = std::make_shared<ExecutionSlots>(4, std::make_shared<EventLoop>(2));
  Held first{.takes = std::chrono::milliseconds(20)};
  Held second;
  BatchQueue a(slots, {}, false, first.run(), "a");
  BatchQueue b(slots, {}, false, second.run(), "b");
  Outcomes outcomes;
  const auto start = [&](BatchQueue& queue) {
    for (int i = 0; i < 8; ++i) {
      queue.start(input_of({1}), Deadline::never(), 0, outcomes.next());
    }
  };
  start(a);
  for (int i = 0; i < 4; ++i) first.entered.acquire();
  // Half of them belong to the other, although all are taken.
  start(b);
  EXPECT_TRUE(testing::eventually([&] { return second.running == 2; }));
  EXPECT_EQ(b.waiting(), 6U);
  // And are not given again to the one that had more than its part.
  first.most = 0;
  first.go.release(4);
  EXPECT_TRUE(testing::eventually([&] { return a.waiting() == 2 && first.running == 2; }));
  EXPECT_EQ(first.most, 2);
  EXPECT_EQ(second.most, 2);
  first.go.release(8);
  second.go.release(8);
  outcomes.wait(16);
}

TEST(ExecutionSlots, ModelsInDemandShareSlotsAndProcessorsByTheirWeights) {
  std::mutex mutex;
  std::vector<std::size_t> parts;
  const auto note = [&](std::size_t count) {
    const std::lock_guard lock(mutex);
    parts.push_back(count);
  };
  const auto slots = std::make_shared<ExecutionSlots>(
      4, std::make_shared<EventLoop>(2), note, ModelWeights{{"heavy", 3}, {"comes later", 7}});
  Held of_light{.takes = std::chrono::milliseconds(20)};
  Held of_heavy{.takes = std::chrono::milliseconds(20)};
  BatchQueue light(slots, {}, false, of_light.run(), "light");
  BatchQueue heavy(slots, {}, false, of_heavy.run(), "heavy");
  Outcomes outcomes;
  light.start(input_of({1}), Deadline::never(), 0, outcomes.next());
  of_light.entered.acquire();
  for (int i = 0; i < 6; ++i) heavy.start(input_of({1}), Deadline::never(), 0, outcomes.next());
  EXPECT_TRUE(testing::eventually([&] { return heavy.waiting() == 3 && of_heavy.running == 3; }));
  for (int i = 0; i < 3; ++i) {
    light.start(input_of({1}), Deadline::never(), 0, outcomes.next());
  }
  of_heavy.go.release();
  EXPECT_TRUE(testing::eventually([&] { return heavy.waiting() == 2 && of_heavy.running == 3; }));
  EXPECT_EQ(light.waiting(), 3U);
  EXPECT_EQ(of_heavy.most, 3);
  EXPECT_EQ(of_light.most, 1);
  {
    const std::lock_guard lock(mutex);
    // One that is alone has all, one of three that have three quarters a fifth: others wait.
    EXPECT_EQ(parts.front(), 1U);
    EXPECT_EQ(*std::ranges::max_element(parts), 5U);
  }
  of_light.go.release(4);
  of_heavy.go.release(5);
  outcomes.wait(10);
}

TEST(ExecutionSlots, AWeightIsAtLeastOne) {
  EXPECT_THAT(testing::message_of([] {
                ExecutionSlots slots(1, nullptr, nullptr, ModelWeights{{"m", 0}});
              }),
              HasSubstr("the weight of model m must be 1 to 1000: 0"));
}

TEST(ExecutionSlots, LongBatchesGiveWayWhereThereAreOtherModels) {
  const auto priority = [] { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())); };
  const auto slots = std::make_shared<ExecutionSlots>(1, std::make_shared<EventLoop>(2));
  std::atomic<int> seen{0};
  const auto run = [&](const Tensors& inputs) {
    seen = priority();
    return Tensors{{"y", inputs.at("x")}};
  };
  const int usual = priority();
  const auto priority_of_first = [&](BatchQueue& queue) {
    Outcomes outcomes;
    queue.start(input_of({1}), Deadline::never(), 0, outcomes.next());
    outcomes.wait(1);
    return seen.load();
  };
  BatchQueue a(slots, {}, false, run, "a");
  EXPECT_EQ(priority_of_first(a), usual);
  BatchQueue b(slots, {}, false, run, "b");
  EXPECT_EQ(priority_of_first(b), std::min(usual + 5, 19));
}

TEST(ExecutionSlots, QueuesOfAModelShareItsPart) {
  const auto slots = std::make_shared<ExecutionSlots>(1, std::make_shared<EventLoop>(2));
  Held held;
  BatchQueue a(slots, {}, false, held.run(), "m");
  BatchQueue b(slots, {}, false, held.run(), "m");
  Outcomes outcomes;
  a.start(input_of({1}), Deadline::never(), 0, outcomes.next());
  held.entered.acquire();
  b.start(input_of({1}), Deadline::never(), 0, outcomes.next());
  held.go.release(2);
  outcomes.wait(2);
  EXPECT_EQ(held.most, 1);
}

TEST(ExecutionSlots, BatchesAndThoseThatReadShareTheProcessors) {
  const auto loop = std::make_shared<EventLoop>(2);
  std::mutex mutex;
  std::vector<std::size_t> parts;
  const auto note = [&](std::size_t count) {
    const std::lock_guard lock(mutex);
    parts.push_back(count);
  };
  Semaphore entered(0);
  Semaphore go(0);
  BatchQueue queue(std::make_shared<ExecutionSlots>(2, loop, note), {}, false,
                   [&](const Tensors& inputs) {
                     entered.release();
                     go.acquire();
                     return Tensors{{"y", inputs.at("x")}};
                   });
  Outcomes outcomes;
  const auto start = [&] { queue.start(input_of({1}), Deadline::never(), 0, outcomes.next()); };
  for (int i = 0; i < 2; ++i) {
    start();
    entered.acquire();
  }
  start();
  start();
  EXPECT_TRUE(testing::eventually([&] { return queue.waiting() == 2; }));
  for (int i = 0; i < 2; ++i) {
    go.release();
    entered.acquire();
  }
  go.release(2);
  outcomes.wait(4);
  // One alone, two, two with another that waits, and the last two.
  EXPECT_THAT(parts, ElementsAre(1, 2, 3, 2));
}

TEST(ExecutionSlots, ManyThreadsGetTheirOwnAnswers) {
  const auto slots = std::make_shared<ExecutionSlots>(2);
  const auto model = [](const Tensors& inputs) {
    auto values = inputs.at("x").values<float>();
    for (float& value : values) value *= 2;
    return Tensors{{"y", TensorValue::vector<float>(values)}};
  };
  BatchQueue a(slots, {.max_batch_size = 3}, true, model);
  BatchQueue b(slots, {.delay = std::chrono::microseconds(50)}, true, model);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    threads.reserve(8);
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) {
          const auto value = static_cast<float>(1000 * t + i);
          const BatchAnswer answer = (i % 2 == 0 ? a : b).run(input_of({value}));
          if (output_of(answer) != std::vector<float>{2 * value}) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(IsRowWise, AsksForAnOpenNumberOfRowsEverywhere) {
  const graph::TensorInfo rows{.name = "a:0", .shape = {-1, 2}};
  const graph::TensorInfo fixed{.name = "a:0", .shape = {3}};
  EXPECT_TRUE(is_row_wise({.inputs = {{"a", rows}}, .outputs = {{"b", rows}}}));
  EXPECT_FALSE(is_row_wise({.inputs = {{"a", rows}}, .outputs = {{"b", fixed}}}));
  EXPECT_FALSE(is_row_wise({.outputs = {{"b", rows}}}));
}

}  // namespace
}  // namespace muster::serving
