#include "muster/distribution/membership/group_internal.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "muster/net/listener.h"

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

  std::unique_ptr<net::Connection> connect() {
    auto connection =
        net::Connection::connect(listener_.address(), {.task = "chief:0", .run_id = "run"},
                                 "data 1", Deadline::after(std::chrono::seconds(10)));
    worker_ = accepted_.get_future().get();
    return connection;
  }

 private:
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

}  // namespace
}  // namespace muster::internal
