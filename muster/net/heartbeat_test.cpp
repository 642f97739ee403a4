#include "muster/net/heartbeat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <future>
#include <memory>
#include <string>
#include <thread>

#include "muster/base/error.h"
#include "muster/net/listener.h"
#include "muster/testing/forked.h"
#include "muster/testing/message_of.h"

namespace muster::net {
namespace {

using namespace std::chrono_literals;
using testing::Forked;
using ::testing::HasSubstr;
using testing::message_of;

const Identity kServer{.task = "chief:0", .run_id = "run-a", .secret = ""};
const Identity kClient{.task = "worker:1", .run_id = "run-a", .secret = ""};

Deadline soon() { return Deadline::after(60s); }

/// A listener whose one connection gets a heartbeat, and what becomes of it.
class Chief {
 public:
  explicit Chief(const HeartbeatOptions& options)
      : listener_("127.0.0.1:0", kServer, [this, options](std::unique_ptr<Connection> connection) {
          connection->detach();
          heartbeat_.set_value(std::make_unique<Heartbeat>(
              std::move(connection), [this](const HeartbeatEnd& end) { end_.set_value(end); },
              options));
        }) {}

  const std::string& address() const { return listener_.address(); }
  std::unique_ptr<Heartbeat> heartbeat() { return heartbeat_.get_future().get(); }
  HeartbeatEnd end() { return end_.get_future().get(); }

 private:
  std::promise<std::unique_ptr<Heartbeat>> heartbeat_;
  std::promise<HeartbeatEnd> end_;
  Listener listener_;
};

void wait_for_beats(const Heartbeat& heartbeat, std::uint64_t count) {
  for (const Deadline deadline = soon(); heartbeat.beats() < count; std::this_thread::yield()) {
    ASSERT_FALSE(deadline.expired()) << "only " << heartbeat.beats() << " beats came";
  }
}

/// A worker in a process of its own that beats until it is stopped. Without threads, which a copy
/// of a process with threads had better not start.
int beat(const std::function<std::string()>& hear) {
  const auto connection = Connection::connect(hear(), kClient, kHeartbeatPurpose, soon());
  for (;;) {
    connection->send(1, "", soon());
    if (connection->wait_readable(Deadline::after(5ms)) && !connection->receive(soon())) return 0;
  }
}

TEST(Heartbeat, AStoppedProcessIsSilentThoughItsConnectionHolds) {
  Forked worker(beat);
  Chief chief({.interval = 5ms, .limit = 500ms});
  worker.tell(chief.address());
  const auto heartbeat = chief.heartbeat();
  wait_for_beats(*heartbeat, 3);
  worker.send(SIGSTOP);
  worker.wait_until_stopped();
  const HeartbeatEnd end = chief.end();
  EXPECT_EQ(end.kind, HeartbeatEnd::Kind::kSilent);
  EXPECT_THAT(end.reason, HasSubstr("worker:1 at 127.0.0.1:"));
  EXPECT_THAT(end.reason, HasSubstr("has been silent for 0."));
  EXPECT_GE(heartbeat->age(), 500ms);
}

TEST(Heartbeat, AKilledProcessIsLostAtOnce) {
  Forked worker(beat);
  Chief chief({.interval = 5ms, .limit = 60s});
  worker.tell(chief.address());
  const auto heartbeat = chief.heartbeat();
  wait_for_beats(*heartbeat, 1);
  worker.send(SIGKILL);
  const HeartbeatEnd end = chief.end();
  EXPECT_EQ(end.kind, HeartbeatEnd::Kind::kLost);
  EXPECT_THAT(end.reason, HasSubstr("worker:1 at 127.0.0.1:"));
}

TEST(Heartbeat, BothSidesHearEachOther) {
  Chief chief({.interval = 5ms, .limit = 60s});
  const Heartbeat worker(Connection::connect(chief.address(), kClient, kHeartbeatPurpose, soon()),
                         {}, {.interval = 5ms, .limit = 60s});
  const auto heartbeat = chief.heartbeat();
  wait_for_beats(*heartbeat, 3);
  wait_for_beats(worker, 3);
  EXPECT_EQ(worker.peer(), "chief:0 at " + chief.address());
}

TEST(Heartbeat, ATaskThatLeavesIsNotLost) {
  Chief chief({.interval = 5ms, .limit = 60s});
  Connection::connect(chief.address(), kClient, kHeartbeatPurpose, soon());
  const auto heartbeat = chief.heartbeat();
  const HeartbeatEnd end = chief.end();
  EXPECT_EQ(end.kind, HeartbeatEnd::Kind::kLeft);
  EXPECT_THAT(end.reason, HasSubstr("worker:1 at 127.0.0.1:"));
}

TEST(Heartbeat, RefusesALimitThatNoBeatCouldMeet) {
  Chief chief({.interval = 5ms, .limit = 60s});
  const auto make = [&] {
    Heartbeat(Connection::connect(chief.address(), kClient, kHeartbeatPurpose, soon()), {},
              {.interval = 10ms, .limit = 10ms});
  };
  EXPECT_THAT(message_of(make), HasSubstr("a limit above the interval: 10 ms, 10 ms"));
  chief.heartbeat();
}

}  // namespace
}  // namespace muster::net
