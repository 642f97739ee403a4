#include "muster/serving/listener/listener.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/semaphore.h"
#include "muster/serving/listener/event_loop.h"
#include "muster/serving/listener/tls_identity_fake.h"
#include "muster/testing/eventually.h"
#include "muster/testing/raw_tcp.h"
#include "muster/testing/temp_dir.h"

namespace muster::serving {
namespace {

using testing::RawTcp;

/// Says what it was made of, and stays open until it is closed.
class SilentConnection final : public ClientConnection {
 public:
  SilentConnection(AcceptedSocket socket, std::atomic<int>& alive)
      : ClientConnection(std::move(socket.open)),
        descriptor_(std::move(socket.descriptor)),
        first_(socket.is_too_many         ? 'm'
               : socket.tls               ? 't'
               : socket.is_from_this_host ? 'h'
                                          : '?'),
        alive_(alive) {
    ++alive_;
  }
  ~SilentConnection() override { --alive_; }

  void start() override { EXPECT_EQ(::send(descriptor_.number(), &first_, 1, MSG_NOSIGNAL), 1); }
  void look(Clock::time_point) override { ++looks; }
  void drain() override { drained = true; }
  void close() override {
    ::shutdown(descriptor_.number(), SHUT_RDWR);
    leave();
  }

  std::atomic<int> looks{0};
  std::atomic<bool> drained{false};

 private:
  OwnedDescriptor descriptor_;
  const char first_;
  std::atomic<int>& alive_;
};

class ListenerTest : public ::testing::Test {
 protected:
  Listener& start(ListenerOptions options = {}) {
    options.address = "127.0.0.1";
    listener_ =
        std::make_unique<Listener>(loop_, std::move(options), [this](AcceptedSocket socket) {
          auto made = std::make_shared<SilentConnection>(std::move(socket), alive_);
          const std::lock_guard lock(mutex_);
          held_.push_back(made);
          return made;
        });
    return *listener_;
  }
  RawTcp connect() const { return RawTcp("127.0.0.1:" + std::to_string(listener_->port())); }
  std::shared_ptr<SilentConnection> held(std::size_t index) {
    const std::lock_guard lock(mutex_);
    return held_.at(index);
  }
  void let_go() {
    std::vector<std::shared_ptr<SilentConnection>> held;
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  }

  EventLoop loop_{2};
  std::atomic<int> alive_{0};
  std::mutex mutex_;
  std::vector<std::shared_ptr<SilentConnection>> held_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, MakesAConnectionOfEachSocketAndLooksAfterIt) {
  start({.look_interval = std::chrono::milliseconds(1)});
  RawTcp client = connect();
  EXPECT_EQ(client.read(1), "h");
  EXPECT_EQ(listener_->connections(), 1u);
  const auto connection = held(0);
  EXPECT_TRUE(testing::eventually([&] { return connection->looks > 2; }));
  connection->close();
  EXPECT_EQ(listener_->connections(), 0u);
  let_go();
}

TEST_F(ListenerTest, TellsSomeBeyondTheLimitAndClosesTheOthers) {
  start({.max_connections = 1, .told_connections = 1});
  RawTcp first = connect();
  EXPECT_EQ(first.read(1), "h");
  RawTcp second = connect();
  EXPECT_EQ(second.read(1), "m");
  EXPECT_EQ(connect().read_to_end(), "");
  let_go();
}

TEST_F(ListenerTest, TakesCertificatesForConnectionsFromThenOn) {
  const TlsIdentity identity;
  start({.tls = identity.options()});
  EXPECT_EQ(connect().read(1), "t");
  const auto before = held(0);
  EXPECT_THROW(listener_->set_certificates({.certificate = "x", .key = "y"}), InvalidArgument);
  EXPECT_NO_THROW(listener_->set_certificates(identity.options()));
  EXPECT_EQ(connect().read(1), "t");
  let_go();
}

TEST_F(ListenerTest, WithoutTlsItTakesNoCertificates) {
  start();
  EXPECT_THROW(listener_->set_certificates(TlsIdentity().options()), FailedPrecondition);
}

TEST_F(ListenerTest, DrainsUntilTheLastConnectionIsClosed) {
  start();
  RawTcp client = connect();
  EXPECT_EQ(client.read(1), "h");
  EXPECT_FALSE(listener_->drain(Deadline::after(std::chrono::seconds(0))));
  EXPECT_TRUE(held(0)->drained);
  EXPECT_NO_THROW(check_port("127.0.0.1", listener_->port()));  // Nothing listens any more.
  const std::jthread closer([&] { held(0)->close(); });
  EXPECT_TRUE(listener_->drain(Deadline::never()));
  let_go();
}

TEST_F(ListenerTest, ItsEndClosesConnectionsAndWaitsUntilNothingHoldsThem) {
  start();
  RawTcp client = connect();
  EXPECT_EQ(client.read(1), "h");
  const std::jthread holder([&] {
    EXPECT_EQ(client.read_to_end(), "");  // The end has begun.
    EXPECT_EQ(alive_, 1);
    let_go();
  });
  listener_.reset();
  EXPECT_EQ(alive_, 0);
}

TEST_F(ListenerTest, ListensOnAUnixSocketAsWellAndRemovesIt) {
  const testing::TempDir folder;
  const auto path = folder / "socket";
  start({.socket_path = path.string()});
  EXPECT_TRUE(std::filesystem::exists(path));
  listener_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ListenerTest, SaysWhyItCannotListen) {
  start();
  const auto no_connect = [](AcceptedSocket) { return std::shared_ptr<ClientConnection>(); };
  EXPECT_THROW(Listener(loop_, {.address = "127.0.0.1", .port = listener_->port()}, no_connect),
               Unavailable);
  EXPECT_THROW(Listener(loop_, {.address = "nowhere"}, no_connect), InvalidArgument);
  EXPECT_THROW(Listener(loop_, {.socket_path = std::string(200, 'x')}, no_connect),
               InvalidArgument);
}

TEST(OpenConnections, AddsNoneToAServerThatStops) {
  const auto open = std::make_shared<OpenConnections>();
  std::atomic<int> alive{0};
  AcceptedSocket socket;
  socket.open = open;
  const auto late = std::make_shared<SilentConnection>(std::move(socket), alive);
  open->begin_drain();
  EXPECT_FALSE(open->add(*late));
  EXPECT_EQ(open->count(), 0u);
  EXPECT_TRUE(open->wait_until_empty(Deadline::never()));
}

}  // namespace
}  // namespace muster::serving
