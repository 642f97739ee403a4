#include "muster/platform/net/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/platform/net/handshake_internal.h"
#include "muster/testing/message_of.h"
#include "muster/testing/raw_tcp.h"

namespace muster::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::message_of;
using testing::RawTcp;
using testing::RawTcpServer;
using ::testing::StartsWith;

const Identity kListenerServer{.task = "ps:0", .run_id = "run-a", .secret = "open sesame"};
const Identity kListenerClient{.task = "worker:1", .run_id = "run-a", .secret = "open sesame"};

Deadline listener_deadline() { return Deadline::after(60s); }

/// Sends every frame back.
void echo(std::unique_ptr<Connection> connection) {
  while (auto frame = connection->receive(Deadline::never())) {
    connection->send(frame->type, frame->header, frame->body.bytes(), listener_deadline());
  }
}

void expect_echo(Connection& connection) {
  connection.send(1, "hello", listener_deadline());
  EXPECT_EQ(connection.receive(listener_deadline())->header, "hello");
}

/// Counts the lines of the log that have some words.
class LogLines {
 public:
  LogLines() {
    log::set_sink([this](log::Level, std::string_view line) {
      std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    });
  }
  ~LogLines() { log::set_sink({}); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  std::ptrdiff_t count(std::string_view words) {
    std::lock_guard lock(mutex_);
    return std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST(Listener, TakesAFreePortAndTellsIt) {
  Listener listener("127.0.0.1:0", kListenerServer, echo);
  EXPECT_THAT(listener.address(), StartsWith("127.0.0.1:"));
  EXPECT_NE(listener.address(), "127.0.0.1:0");
  expect_echo(
      *Connection::connect(listener.address(), kListenerClient, "test", listener_deadline()));
}

TEST(Listener, ListensAtNamesAndAtIpv6) {
  Listener by_name("localhost:0", kListenerServer, echo);
  EXPECT_THAT(by_name.address(), StartsWith("localhost:"));
  expect_echo(
      *Connection::connect(by_name.address(), kListenerClient, "test", listener_deadline()));
  std::unique_ptr<Listener> v6;
  try {
    v6 = std::make_unique<Listener>("[::1]:0", kListenerServer, echo);
  } catch (const Error& error) {
    GTEST_SKIP() << "no IPv6 here: " << error.what();
  }
  expect_echo(*Connection::connect(v6->address(), kListenerClient, "test", listener_deadline()));
}

TEST(Listener, APortInUseIsWorthAnotherTry) {
  Listener first("127.0.0.1:0", kListenerServer, echo);
  try {
    Listener second(first.address(), kListenerServer, echo);
    FAIL() << "two listeners share " << first.address();
  } catch (const Unavailable& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("cannot listen at " + first.address() + ": the port is in use"));
    EXPECT_EQ(describe(std::current_exception()).exit_code, 75);
  }
  // Those who do not listen but hold it count too.
  const RawTcpServer other;
  EXPECT_THROW(Listener(other.address(), kListenerServer, echo), Unavailable);
}

TEST(Listener, TakesItsPortAgainAtOnceAfterItWasClosed) {
  std::string address;
  {
    Listener first("127.0.0.1:0", kListenerServer, echo);
    address = first.address();
    expect_echo(*Connection::connect(address, kListenerClient, "test", listener_deadline()));
  }
  Listener second(address, kListenerServer, echo);
  expect_echo(*Connection::connect(address, kListenerClient, "test", listener_deadline()));
}

TEST(Listener, AnAddressOfAnotherMachineIsRefused) {
  EXPECT_THAT(message_of([] { Listener("192.0.2.1:0", kListenerServer, echo); }),
              HasSubstr("this machine has no such address"));
}

TEST(Listener, ToldAndDroppedStrangersAreLoggedOnceAKind) {
  LogLines lines;
  Listener listener("127.0.0.1:0", kListenerServer, echo);
  for (int i = 0; i < 3; ++i) {
    RawTcp browser(listener.address());
    browser.send("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    EXPECT_THAT(browser.read_to_end(), StartsWith("HTTP/1.1 400 Bad Request"));
    RawTcp noise(listener.address());
    noise.send("SSH-2.0-OpenSSH_9.2\r\n");
    EXPECT_EQ(noise.read_to_end(), "");
  }
  EXPECT_EQ(lines.count("it speaks HTTP"), 1);
  EXPECT_EQ(lines.count("it speaks something that is not muster's protocol"), 1);
  expect_echo(
      *Connection::connect(listener.address(), kListenerClient, "test", listener_deadline()));
}

TEST(Listener, AStrangerThatStopsHalfWayIsDropped) {
  LogLines lines;
  Listener listener("127.0.0.1:0", kListenerServer, echo, {.handshake_timeout = 100ms});
  RawTcp half(listener.address());
  half.send(ClientHandshake(kListenerClient, "test", "").hello().substr(0, 30));
  RawTcp silent(listener.address());
  EXPECT_EQ(half.read_to_end(), "");
  EXPECT_EQ(silent.read_to_end(), "");
}

TEST(Listener, ThoseOfAnotherRunOrSecretAreToldAndNamedInTheLog) {
  LogLines lines;
  std::atomic<int> accepted = 0;
  Listener listener("127.0.0.1:0", kListenerServer,
                    [&](std::unique_ptr<Connection>) { ++accepted; });
  Identity other_run = kListenerClient;
  other_run.run_id = "run-b";
  EXPECT_THROW(Connection::connect(listener.address(), other_run, "test", Deadline::after(500ms)),
               FailedPrecondition);
  Identity other_secret = kListenerClient;
  other_secret.secret = "open barley";
  EXPECT_THROW(Connection::connect(listener.address(), other_secret, "test", listener_deadline()),
               PermissionDenied);
  listener.close();
  EXPECT_EQ(accepted, 0);
  EXPECT_EQ(lines.count("worker:1 is of run run-b, this is run run-a"), 1);
  EXPECT_EQ(lines.count("it has another secret than this task"), 1);
  EXPECT_EQ(lines.count("sesame") + lines.count("barley"), 0);
}

TEST(Listener, ATaskThatTheClusterDoesNotHaveIsRefusedThoughItKnowsTheSecret) {
  LogLines lines;
  std::atomic<int> accepted = 0;
  auto listener = std::make_unique<Listener>(
      "127.0.0.1:0", kListenerServer, [&](std::unique_ptr<Connection>) { ++accepted; },
      ConnectionOptions{.admits = [](std::string_view task) { return task == "worker:1"; }});
  Identity stranger = kListenerClient;
  stranger.task = "worker:99";
  EXPECT_THAT(message_of([&] {
                Connection::connect(listener->address(), stranger, "test", listener_deadline());
              }),
              HasSubstr("has a cluster without worker:99"));
  Connection::connect(listener->address(), kListenerClient, "test", listener_deadline());
  listener.reset();  // Waits for those that it took.
  EXPECT_EQ(accepted, 1);
  EXPECT_EQ(lines.count("the cluster of this task has no worker:99"), 1);
}

TEST(Listener, ARecordedHandshakeOpensNothing) {
  std::atomic<int> accepted = 0;
  auto listener = std::make_unique<Listener>("127.0.0.1:0", kListenerServer,
                                             [&](std::unique_ptr<Connection>) { ++accepted; });
  std::string recorded;
  {
    RawTcp raw(listener->address());
    ClientHandshake handshake(kListenerClient, "test", "");
    recorded = handshake.hello();
    raw.send(recorded);
    while (handshake.wanted() > 0) {
      const std::string answer = handshake.take(raw.read(handshake.wanted()));
      raw.send(answer);
      recorded += answer;
    }
    EXPECT_TRUE(handshake.proved());
  }
  RawTcp again(listener->address());
  again.send(recorded);
  again.read_to_end();
  listener.reset();
  EXPECT_EQ(accepted, 1);
}

TEST(Listener, ManyIdleStrangersDoNotKeepAPeerOut) {
  Listener listener("127.0.0.1:0", kListenerServer, echo, {.handshake_timeout = 10min});
  std::vector<RawTcp> strangers;
  // More than it hears out at a time; the limit of open files is often 1024, for both ends.
  for (int i = 0; i < 300; ++i) strangers.emplace_back(listener.address());
  expect_echo(
      *Connection::connect(listener.address(), kListenerClient, "test", listener_deadline()));
  // The oldest ones had to go.
  EXPECT_EQ(strangers.front().read_to_end(), "");
}

TEST(Listener, ManyPeersAreServedAtOnce) {
  Listener listener("127.0.0.1:0", kListenerServer, echo);
  std::vector<std::unique_ptr<Connection>> peers;
  for (int i = 0; i < 20; ++i) {
    peers.push_back(
        Connection::connect(listener.address(), kListenerClient, "test", listener_deadline()));
  }
  for (const auto& peer : peers) expect_echo(*peer);
}

TEST(Listener, WhatAHandlerThrowsIsLoggedAndEndsItsConnectionAlone) {
  LogLines lines;
  {
    Listener listener("127.0.0.1:0", kListenerServer, [](std::unique_ptr<Connection> connection) {
      if (connection->purpose() == "fail") throw Internal("a broken handler");
      echo(std::move(connection));
    });
    const auto good =
        Connection::connect(listener.address(), kListenerClient, "test", listener_deadline());
    const auto bad =
        Connection::connect(listener.address(), kListenerClient, "fail", listener_deadline());
    EXPECT_FALSE(bad->receive(listener_deadline()).has_value());
    expect_echo(*good);
  }
  EXPECT_EQ(lines.count("(fail) failed: a broken handler"), 1);
}

TEST(Listener, ClosingEndsHandlersThatWait) {
  std::promise<void> waits;
  auto listener = std::make_unique<Listener>(
      "127.0.0.1:0", kListenerServer, [&](std::unique_ptr<Connection> connection) {
        waits.set_value();
        EXPECT_FALSE(connection->receive(Deadline::never()).has_value());
      });
  const auto client =
      Connection::connect(listener->address(), kListenerClient, "test", listener_deadline());
  waits.get_future().wait();
  listener.reset();
  EXPECT_FALSE(client->receive(listener_deadline()).has_value());
}

TEST(Listener, AConnectionThatWasDetachedOutlivesIt) {
  std::promise<std::unique_ptr<Connection>> handed;
  auto listener = std::make_unique<Listener>("127.0.0.1:0", kListenerServer,
                                             [&](std::unique_ptr<Connection> connection) {
                                               connection->detach();
                                               handed.set_value(std::move(connection));
                                             });
  const std::string address = listener->address();
  const auto client = Connection::connect(address, kListenerClient, "test", listener_deadline());
  const auto server = handed.get_future().get();
  listener.reset();
  client->send(1, "still here", listener_deadline());
  EXPECT_EQ(server->receive(listener_deadline())->header, "still here");
  EXPECT_THROW(Connection::connect(address, kListenerClient, "test", Deadline::after(1ms)),
               Unavailable);
}

TEST(Loopback, IsWhatNoOtherMachineReaches) {
  for (const char* address : {"127.0.0.1:1", "127.3.2.1:0", "[::1]:1", "localhost:1"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
  }
  for (const char* address :
       {":1", "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "no.such.host.invalid:1"}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

}  // namespace
}  // namespace muster::net
