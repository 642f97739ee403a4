#include "muster/distribution/membership/group_internal.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/signals.h"
#include "muster/platform/net/listener.h"
#include "muster/testing/tcp_relay.h"

namespace muster::internal {
namespace {

const GenerationMember kChief{.task = "chief:0"};
const GenerationMember kWorker{.task = "worker:0"};

/// A connection of the chief's with a worker that takes nothing, as if it were stopped.
class StoppedWorker {
 public:
  StoppedWorker()
      : listener_("127.0.0.1:0", {.task = "worker:0", .run_id = "run"},
                  [this](std::unique_ptr<net::Connection> connection) {
                    connection->detach();
                    accepted_.set_value(std::move(connection));
                  }) {}

  std::unique_ptr<net::Connection> connect() { return connect_to(listener_.address()); }
  std::unique_ptr<net::Connection> connect_through(const testing::TcpRelay& relay) {
    return connect_to(relay.address());
  }
  const std::string& address() const { return listener_.address(); }
  /// For a worker that takes something after all.
  std::unique_ptr<net::Connection> take_connection() { return std::move(worker_); }

 private:
  std::unique_ptr<net::Connection> connect_to(const std::string& address) {
    auto connection = net::Connection::connect(address, {.task = "chief:0", .run_id = "run"},
                                               "data 1", Deadline::after(std::chrono::seconds(10)));
    worker_ = accepted_.get_future().get();
    return connection;
  }

  std::promise<std::unique_ptr<net::Connection>> accepted_;
  std::unique_ptr<net::Connection> worker_;
  net::Listener listener_;
};

/// A group whose chief sends a worker more than sockets keep, and which the worker does not take.
class StuckGroup : public ::testing::Test {
 protected:
  StuckGroup() : group_(both_, 0, connections()) {}

  void SetUp() override {
    ASSERT_EQ(sending_.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  }
  void send() { group_.send(1, SnapshotPiece{{.bytes = body_}}); }

  const std::vector<std::byte> body_ = std::vector<std::byte>(std::size_t{256} << 20);
  const GenerationPlan both_{.number = 1, .members = {kChief, kWorker}, .trainers = 2};
  StoppedWorker worker_;
  Group group_;
  std::future<void> sending_ = std::async(std::launch::async, [this] { send(); });

 private:
  std::vector<std::unique_ptr<net::Connection>> connections() {
    std::vector<std::unique_ptr<net::Connection>> made(2);
    made[1] = worker_.connect();
    return made;
  }
};

TEST_F(StuckGroup, SendsNoLongerToATaskThatIsLeftBehind) {
  group_.interrupt("generation 2 begins");
  group_.leave_behind({.number = 2, .members = {kChief, kWorker}, .trainers = 2});
  EXPECT_EQ(sending_.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  group_.leave_behind({.number = 2, .members = {kChief}, .trainers = 1});
  EXPECT_THROW(sending_.get(), PeersChanged);
}

TEST_F(StuckGroup, SendsNothingMoreWhenTheRunEnds) {
  group_.end();
  EXPECT_NO_THROW(sending_.get());
  EXPECT_NO_THROW(send());
}

/// A chief and a worker, whose threads look for messages before they sleep, or do not.
class TwoGroups : public ::testing::TestWithParam<GroupOptions> {
 protected:
  TwoGroups() {
    std::vector<std::unique_ptr<net::Connection>> to_worker(2), to_chief(2);
    to_worker[1] = meeting_.connect();
    to_chief[0] = meeting_.take_connection();
    chief_ = std::make_unique<Group>(both_, 0, std::move(to_worker), GetParam());
    worker_ = std::make_unique<Group>(both_, 1, std::move(to_chief), GetParam());
  }

  const GenerationPlan both_{.number = 1, .members = {kChief, kWorker}, .trainers = 2};
  StoppedWorker meeting_;
  std::unique_ptr<Group> chief_, worker_;
};

TEST_P(TwoGroups, TakeWhatTheOtherSentInItsOrder) {
  constexpr int kMessages = 500;
  // Now and then a message is large, or both send at the same time, or one waits for a while.
  const auto talk = [](Group& group, std::size_t other) {
    for (int i = 0; i < kMessages; ++i) {
      const std::vector<std::byte> body(i % 50 == 0 ? std::size_t{1} << 20 : 100 + i);
      group.send(other, SnapshotPiece{{.bytes = body}});
      if (i % 3 == 0) group.send(other, DeviceGroup{std::to_string(i)});
      if (i % 100 == 99) std::this_thread::sleep_for(std::chrono::milliseconds(2 * other + 1));
      const auto piece = group.take<SnapshotPiece>(other, "a piece");
      ASSERT_TRUE(piece);
      ASSERT_EQ(piece->values.bytes.size(), body.size());
      if (i % 3 != 0) continue;
      ASSERT_TRUE(group.await(other, "a text"));
      const auto text = group.take<DeviceGroup>(other, "a text");
      ASSERT_TRUE(text);
      ASSERT_EQ(text->id, std::to_string(i));
    }
  };
  auto answering = std::async(std::launch::async, [&] { talk(*worker_, 0); });
  talk(*chief_, 1);
  answering.get();
}

TEST_P(TwoGroups, SendEachOtherMoreThanSocketsKeep) {
  const std::vector<std::byte> body(std::size_t{64} << 20);
  // Neither takes before it has sent.
  const auto swap = [&](Group& group, std::size_t other) {
    group.send(other, SnapshotPiece{{.bytes = body}});
    return group.take<SnapshotPiece>(other, "a piece")->values.bytes.size();
  };
  auto answering = std::async(std::launch::async, [&] { return swap(*worker_, 0); });
  EXPECT_EQ(swap(*chief_, 1), body.size());
  EXPECT_EQ(answering.get(), body.size());
}

TEST_P(TwoGroups, TakeWhatCameWhileTheyReceiveAhead) {
  constexpr int kMessages = 100;
  for (int i = 0; i < kMessages; ++i) worker_->send(0, DeviceGroup{std::to_string(i)});
  for (int i = 0; i < kMessages; ++i) {
    // Now the one who waits receives, now a thread of the group.
    std::optional<Group::ReceivingAhead> ahead;
    if (i % 3 == 0) ahead.emplace(*chief_);
    EXPECT_EQ(chief_->take<DeviceGroup>(1, "words")->id, std::to_string(i));
  }
}

TEST_P(TwoGroups, NoticeThatTheOtherIsGoneWhileNobodyWaits) {
  worker_->send(0, DeviceGroup{"the last words"});
  worker_.reset();
  const auto is_whole = [&] {
    try {
      return chief_->check();
    } catch (const PeersChanged&) {
      return false;
    }
  };
  while (is_whole()) std::this_thread::yield();
  EXPECT_EQ(chief_->take<DeviceGroup>(1, "words")->id, "the last words");
}

TEST_P(TwoGroups, SayThatTheOtherIsGone) {
  worker_->send(0, DeviceGroup{"the last words"});
  worker_.reset();
  // Messages that were sent before are good.
  EXPECT_EQ(chief_->take<DeviceGroup>(1, "words")->id, "the last words");
  EXPECT_THROW(chief_->take<DeviceGroup>(1, "more words"), PeersChanged);
  EXPECT_THROW(chief_->check(), PeersChanged);
}

TEST_P(TwoGroups, EndAWaitThatIsInterrupted) {
  auto waiting = std::async(std::launch::async, [&] { chief_->take<DeviceGroup>(1, "words"); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_TRUE(chief_->check());
  chief_->interrupt("generation 2 begins");
  EXPECT_THROW(waiting.get(), PeersChanged);
}

TEST_P(TwoGroups, EndAWaitWhenTheRunEnds) {
  auto waiting = std::async(std::launch::async,
                            [&] { return chief_->take<DeviceGroup>(1, "words").has_value(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  chief_->end();
  EXPECT_FALSE(waiting.get());
  EXPECT_FALSE(chief_->check());
}

constexpr std::array kAllOptions{GroupOptions{}, GroupOptions{.looks = true},
                                 GroupOptions{.waiters_receive = true},
                                 GroupOptions{.looks = true, .waiters_receive = true}};

std::string name_of(const ::testing::TestParamInfo<GroupOptions>& with) {
  return fmt::format("{}{}", with.param.looks ? "Look" : "Sleep",
                     with.param.waiters_receive ? "AndReceive" : "");
}

INSTANTIATE_TEST_SUITE_P(Options, TwoGroups, ::testing::ValuesIn(kAllOptions), name_of);

/// A chief that waits for a worker which has sent the first half of a message, and then hangs: it
/// closes nothing.
class HalfAMessage : public ::testing::TestWithParam<GroupOptions> {
 protected:
  HalfAMessage() {
    std::vector<std::unique_ptr<net::Connection>> to_worker(2);
    to_worker[1] = meeting_.connect_through(relay_);
    worker_ = meeting_.take_connection();
    chief_ = std::make_unique<Group>(both_, 0, std::move(to_worker), GetParam());
    relay_.hang_server_after(1'000);
    const std::vector<std::byte> body(4'000);
    internal::send(*worker_, SnapshotPiece{{.bytes = body}},
                   Deadline::after(std::chrono::seconds(10)));
  }
  /// As a task that is asked to stop; each of its heartbeats lets it look.
  template <typename Result>
  void beat_until_done(std::future<Result>& waiting) {
    while (waiting.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout) {
      chief_->wake();
    }
  }
  template <typename Work>
  auto begin(const Work& work) {
    auto waiting = std::async(std::launch::async, work);
    EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
    return waiting;
  }

  const GenerationPlan both_{.number = 1, .members = {kChief, kWorker}, .trainers = 2};
  StoppedWorker meeting_;
  testing::TcpRelay relay_{meeting_.address()};
  std::unique_ptr<net::Connection> worker_;
  std::unique_ptr<Group> chief_;
};

TEST_P(HalfAMessage, IsNotWaitedForByATaskThatIsAskedToStop) {
  const StopSignals signals;
  auto waiting = begin([&] { return chief_->await(1, "a piece").has_value(); });
  ::raise(SIGTERM);
  beat_until_done(waiting);
  EXPECT_FALSE(waiting.get());
  StopSignals::reset();
}

TEST_P(HalfAMessage, IsNotWaitedForWhenTheRunEnds) {
  auto waiting = begin([&] { return chief_->take<SnapshotPiece>(1, "a piece").has_value(); });
  chief_->end();
  EXPECT_FALSE(waiting.get());
}

TEST_P(HalfAMessage, IsNotWaitedForWhenAnotherGenerationBegins) {
  auto waiting = begin([&] { chief_->take<SnapshotPiece>(1, "a piece"); });
  chief_->interrupt("generation 2 begins with 2 tasks");
  EXPECT_THROW(waiting.get(), PeersChanged);
}

TEST_P(HalfAMessage, IsNotWaitedForByATaskThatLeaves) { chief_.reset(); }

INSTANTIATE_TEST_SUITE_P(Options, HalfAMessage, ::testing::ValuesIn(kAllOptions), name_of);

}  // namespace
}  // namespace muster::internal
