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

TEST(Group, WhoSendsToATaskThatIsLeftBehindWaitsNoLonger) {
  StoppedWorker worker;
  std::vector<std::unique_ptr<net::Connection>> connections(2);
  connections[1] = worker.connect();
  Group group({.number = 1, .members = {kChief, kWorker}, .trainers = 2}, 0,
              std::move(connections));
  // More than sockets keep.
  const std::vector<std::byte> body(std::size_t{256} << 20);
  auto sending =
      std::async(std::launch::async, [&] { group.send(1, SnapshotPiece{{.bytes = body}}); });
  EXPECT_EQ(sending.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  group.interrupt("generation 2 begins");
  group.leave_behind({.number = 2, .members = {kChief, kWorker}, .trainers = 2});
  EXPECT_EQ(sending.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  group.leave_behind({.number = 2, .members = {kChief}, .trainers = 1});
  EXPECT_THROW(sending.get(), PeersChanged);
}

TEST(Group, WhoSendsToAStoppedTaskWhenTheRunEndsWaitsNoLonger) {
  StoppedWorker worker;
  std::vector<std::unique_ptr<net::Connection>> connections(2);
  connections[1] = worker.connect();
  Group group({.number = 1, .members = {kChief, kWorker}, .trainers = 2}, 0,
              std::move(connections));
  const std::vector<std::byte> body(std::size_t{256} << 20);
  auto sending =
      std::async(std::launch::async, [&] { group.send(1, SnapshotPiece{{.bytes = body}}); });
  EXPECT_EQ(sending.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  group.end();
  EXPECT_NO_THROW(sending.get());
  EXPECT_NO_THROW(group.send(1, SnapshotPiece{{.bytes = body}}));
}

}  // namespace
}  // namespace muster::internal
