#include "muster/platform/net/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/platform/net/frame_internal.h"
#include "muster/platform/net/handshake_internal.h"
#include "muster/platform/net/listener.h"
#include "muster/testing/forked.h"
#include "muster/testing/message_of.h"
#include "muster/testing/raw_tcp.h"

namespace muster::net {
namespace {

using namespace std::chrono_literals;
using testing::Forked;
using ::testing::HasSubstr;
using testing::message_of;
using testing::RawTcp;
using testing::RawTcpServer;

const Identity kConnectionServer{.task = "ps:0", .run_id = "run-a", .secret = "open sesame"};
const Identity kConnectionClient{.task = "worker:1", .run_id = "run-a", .secret = "open sesame"};

// Longest wait of a test when something is broken.
Deadline soon() { return Deadline::after(60s); }

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i * 131 + (i >> 8) + seed) & 0xff);
  }
  return bytes;
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// A listener that hands its one connection to the test.
class Pair {
 public:
  explicit Pair(const ConnectionOptions& server_options = {},
                const ConnectionOptions& client_options = {})
      : listener_(
            "127.0.0.1:0", kConnectionServer,
            [this](std::unique_ptr<Connection> c) { accepted_.set_value(std::move(c)); },
            server_options),
        client(Connection::connect(listener_.address(), kConnectionClient, "test", soon(),
                                   client_options)),
        server(accepted_.get_future().get()) {}

 private:
  std::promise<std::unique_ptr<Connection>> accepted_;
  Listener listener_;

 public:
  std::unique_ptr<Connection> client;
  std::unique_ptr<Connection> server;
};

TEST(Connection, BothSidesKnowWhoTheOtherIs) {
  const Pair pair;
  EXPECT_EQ(pair.client->peer_task(), "ps:0");
  EXPECT_EQ(pair.server->peer_task(), "worker:1");
  EXPECT_EQ(pair.server->purpose(), "test");
  EXPECT_THAT(pair.client->peer(), HasSubstr("ps:0 at 127.0.0.1:"));
  EXPECT_THAT(pair.server->peer(), HasSubstr("worker:1 at 127.0.0.1:"));
}

void send_sizes(Connection& connection, const std::vector<std::size_t>& sizes) {
  for (const std::size_t size : sizes) {
    const auto body = pattern(size, static_cast<unsigned>(size));
    connection.send(static_cast<std::uint32_t>(size % 1000), std::string(size % 300, 'h'), body,
                    soon());
  }
}

void expect_sizes(Connection& connection, const std::vector<std::size_t>& sizes) {
  for (const std::size_t size : sizes) {
    const auto frame = connection.receive(soon());
    ASSERT_TRUE(frame.has_value()) << size;
    EXPECT_EQ(frame->type, size % 1000);
    EXPECT_EQ(frame->header, std::string(size % 300, 'h'));
    EXPECT_TRUE(equal(frame->body.bytes(), pattern(size, static_cast<unsigned>(size)))) << size;
  }
}

TEST(Connection, FramesOfAllSizesPassBothWaysAtOnce) {
  Pair pair;
  // Up to far more than the kernel buffers, so that both sides wait for each other.
  const std::vector<std::size_t> sizes = {0,      1,      23,        24, 25,         16'383, 16'384,
                                          16'385, 65'536, 1'000'000, 0,  24'000'000, 5};
  std::jthread from_client([&] { send_sizes(*pair.client, sizes); });
  std::jthread from_server([&] { send_sizes(*pair.server, sizes); });
  std::jthread at_client([&] { expect_sizes(*pair.client, sizes); });
  expect_sizes(*pair.server, sizes);
}

TEST(Connection, ABodyOfManyPiecesArrivesAsOne) {
  Pair pair;
  const auto whole = pattern(30'000, 3);
  std::vector<std::span<const std::byte>> pieces;
  // More pieces than one system call takes, some of them empty.
  for (std::size_t i = 0; i < whole.size(); i += 10) {
    pieces.push_back(std::span(whole).subspan(i, 10));
    if (i % 100 == 0) pieces.emplace_back();
  }
  pair.client->send(7, "", pieces, soon());
  const auto frame = pair.server->receive(soon());
  ASSERT_TRUE(frame.has_value());
  EXPECT_TRUE(equal(frame->body.bytes(), whole));
}

TEST(Connection, ABodyCanBeReadInPartsAndTheRestIsSkipped) {
  Pair pair;
  const auto body = pattern(300'000, 1);
  pair.client->send(1, "first", body, soon());
  pair.client->send(2, "second", soon());
  const auto info = pair.server->receive_header(soon());
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->header, "first");
  EXPECT_EQ(info->body_bytes, body.size());
  std::vector<std::byte> part(100'000);
  pair.server->receive_body(part);
  EXPECT_TRUE(equal(part, std::span(body).first(part.size())));
  pair.server->receive_body(std::span(part).first(10));
  EXPECT_TRUE(equal(std::span(part).first(10), std::span(body).subspan(100'000, 10)));
  std::vector<std::byte> too_much(body.size());
  EXPECT_THAT(message_of([&] { pair.server->receive_body(too_much); }),
              HasSubstr("has 199990 bytes left, and 300000 are asked for"));
  EXPECT_EQ(pair.server->receive(soon())->header, "second");
}

TEST(Connection, FramesOfSeveralThreadsDoNotMix) {
  Pair pair;
  constexpr int kThreads = 4;
  constexpr int kFrames = 25;
  {
    std::vector<std::jthread> senders;
    senders.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      senders.emplace_back([&, t] {
        const std::vector<std::byte> body(70'000, static_cast<std::byte>(t));
        for (int i = 0; i < kFrames; ++i) {
          pair.client->send(static_cast<std::uint32_t>(t), std::to_string(i), body, soon());
        }
      });
    }
    std::array<int, kThreads> next{};
    for (int i = 0; i < kThreads * kFrames; ++i) {
      const auto frame = pair.server->receive(soon());
      ASSERT_TRUE(frame.has_value());
      EXPECT_EQ(frame->header, std::to_string(next.at(frame->type)++));
      const std::vector<std::byte> body(70'000, static_cast<std::byte>(frame->type));
      EXPECT_TRUE(equal(frame->body.bytes(), body));
    }
  }
}

TEST(Connection, APeerThatClosesInOrderGivesNothingMore) {
  Pair pair;
  pair.client->send(1, "last", soon());
  pair.client.reset();
  EXPECT_EQ(pair.server->receive(soon())->header, "last");
  EXPECT_FALSE(pair.server->receive(soon()).has_value());
  EXPECT_FALSE(pair.server->receive(soon()).has_value());
}

TEST(Connection, CloseWakesThoseWhoWait) {
  Pair pair;
  std::promise<void> full;
  std::jthread sender([&] {
    const std::vector<std::byte> body(1'000'000);
    EXPECT_THROW(
        {
          for (int i = 0;; ++i) {
            if (i == 1) full.set_value();
            pair.client->send(1, "", body, Deadline::never());
          }
        },
        Cancelled);
  });
  std::jthread receiver([&] { EXPECT_FALSE(pair.client->receive(Deadline::never()).has_value()); });
  full.get_future().wait();
  pair.client->close();
  sender.join();
  receiver.join();
  EXPECT_THROW(pair.client->send(1, "", soon()), Cancelled);
}

TEST(Connection, ADeadlineBetweenFramesLeavesTheConnectionUsable) {
  Pair pair;
  EXPECT_THAT(message_of([&] { pair.server->receive(Deadline::after(1ms)); }),
              HasSubstr("no message of worker:1 at 127.0.0.1:"));
  EXPECT_FALSE(pair.server->wait_readable(Deadline::after(1ms)));
  pair.client->send(1, "late", soon());
  EXPECT_TRUE(pair.server->wait_readable(soon()));
  EXPECT_EQ(pair.server->receive(soon())->header, "late");
}

TEST(Connection, APeerThatDoesNotReadMakesSendingFailAtTheDeadline) {
  Pair pair;
  const std::vector<std::byte> body(64'000'000);
  EXPECT_THROW(pair.client->send(1, "", body, Deadline::after(50ms)), DeadlineExceeded);
  // Half a frame is on its way: nothing can follow it.
  EXPECT_THAT(message_of([&] { pair.client->send(1, "", soon()); }),
              HasSubstr("ps:0 at 127.0.0.1:"));
  EXPECT_THROW(pair.client->send(1, "", soon()), Unavailable);
}

TEST(Connection, CallsWhatIsSetBeforeItWaitsToSend) {
  Pair pair;
  std::promise<void> waits;
  pair.client->before_waiting_to_send([&] { waits.set_value(); });
  pair.client->send(1, "small", soon());
  const auto body = pattern(std::size_t{64} << 20, 5);
  auto sending = std::async(std::launch::async, [&] { pair.client->send(2, "", body, soon()); });
  // No thread receives before that.
  waits.get_future().get();
  EXPECT_EQ(pair.server->receive(soon())->header, "small");
  EXPECT_TRUE(equal(pair.server->receive(soon())->body.bytes(), body));
  sending.get();
}

TEST(Connection, AWakerEndsAWaitForAFrame) {
  Pair pair;
  Waker waker;
  const WaitReason reason = [] { return "a test"; };
  auto waiting =
      std::async(std::launch::async, [&] { return pair.server->wait_readable(waker, reason); });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  waker.set();
  EXPECT_FALSE(waiting.get());
  EXPECT_FALSE(pair.server->wait_readable(waker, reason)) << "It is still set.";
  waker.reset();
  pair.client->send(1, "words", soon());
  EXPECT_TRUE(pair.server->wait_readable(waker, reason));
  EXPECT_EQ(pair.server->receive(soon())->header, "words");
}

TEST(Connection, AWaitForTheEndSleepsThroughWhatComesBefore) {
  Pair pair;
  Waker waker;
  auto waiting = std::async(std::launch::async, [&] { pair.server->wait_for_end(waker); });
  pair.client->send(1, "words", soon());
  pair.server->wait_for_bytes();
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  pair.client->close();
  waiting.get();
  EXPECT_EQ(pair.server->receive(soon())->header, "words");
  EXPECT_FALSE(pair.server->receive(soon()));
}

TEST(Connection, AWakerEndsAWaitForTheEnd) {
  Pair pair;
  Waker waker;
  auto waiting = std::async(std::launch::async, [&] { pair.server->wait_for_end(waker); });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  waker.set();
  waiting.get();
}

TEST(Connection, WhatIsTooLargeToSendIsRefusedHere) {
  Pair pair({}, {.limits = {.max_header = 10, .max_body = 100}});
  EXPECT_THROW(pair.client->send(1, "elevenbytes", soon()), InvalidArgument);
  EXPECT_THROW(pair.client->send(1, "", pattern(101, 0), soon()), InvalidArgument);
  EXPECT_THROW(pair.client->send(kReservedTypes, "", soon()), InvalidArgument);
  pair.client->send(1, "ten bytes.", pattern(100, 0), soon());
  EXPECT_EQ(pair.server->receive(soon())->header, "ten bytes.");
}

TEST(Connection, WhatIsTooLargeToReceiveIsRefusedByNameAndSize) {
  {
    Pair pair({.limits = {.max_body = 1000}});
    pair.client->send(3, "", pattern(1001, 0), soon());
    const auto act = [&] { pair.server->receive(soon()); };
    EXPECT_THAT(message_of(act), HasSubstr("receiving from worker:1 at 127.0.0.1:"));
    EXPECT_THAT(message_of(act), HasSubstr("0 + 1001 bytes is larger than allowed"));
    EXPECT_THROW(act(), ResourceExhausted);
  }
  Pair pair({.limits = {.max_header = 1000}});
  pair.client->send(3, std::string(1001, 'x'), soon());
  EXPECT_THROW(pair.server->receive(soon()), ResourceExhausted);
}

TEST(Connection, LimitsOfATypeTakeThePlaceOfThoseOfAll) {
  Pair pair({.limits_by_type = [](std::uint32_t type) {
    return type == 3 ? FrameLimits{.max_header = 5, .max_body = 0} : FrameLimits{};
  }});
  pair.client->send(4, "longer", pattern(1001, 0), soon());
  EXPECT_EQ(pair.server->receive(soon())->body.size(), 1001U);
  pair.client->send(3, "short", soon());
  EXPECT_EQ(pair.server->receive(soon())->header, "short");
  pair.client->send(3, "short", pattern(1, 0), soon());
  EXPECT_THROW(pair.server->receive(soon()), ResourceExhausted);
}

/// Speaks the handshake over plain TCP, so that a test can continue with bytes of its own.
RawTcp introduced(const std::string& address) {
  RawTcp raw(address);
  ClientHandshake handshake(kConnectionClient, "test", "");
  raw.send(handshake.hello());
  while (handshake.wanted() > 0) raw.send(handshake.take(raw.read(handshake.wanted())));
  EXPECT_TRUE(handshake.proved()) << handshake.reason();
  return raw;
}

enum class Then { kEnd, kStay };

/// The exception of receiving when the peer, having proved itself, sends these bytes and then ends
/// or stays.
std::exception_ptr failure_after(std::string_view bytes, Then then = Then::kEnd,
                                 const ConnectionOptions& options = {}) {
  std::promise<std::exception_ptr> failed;
  Listener listener(
      "127.0.0.1:0", kConnectionServer,
      [&](std::unique_ptr<Connection> connection) {
        try {
          while (connection->receive(soon())) {
          }
          failed.set_value(nullptr);
        } catch (...) {
          failed.set_value(std::current_exception());
        }
      },
      options);
  RawTcp raw = introduced(listener.address());
  raw.send(bytes);
  if (then == Then::kEnd) ::shutdown(raw.descriptor(), SHUT_WR);
  return failed.get_future().get();
}

std::string bytes_of(const FramePrefix& prefix) {
  const auto bytes = encode(prefix);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Connection, WhatIsNoFrameIsDataLoss) {
  EXPECT_THROW(std::rethrow_exception(failure_after("these bytes are no frame at all")), DataLoss);
  std::string other_version = bytes_of({.type = 1});
  other_version[4] = 9;
  EXPECT_THROW(std::rethrow_exception(failure_after(other_version)), DataLoss);
  EXPECT_THROW(std::rethrow_exception(failure_after(bytes_of({.type = 0xffff'ffff}))), DataLoss);
}

TEST(Connection, ABodyOfManyExabytesTakesNoMemory) {
  const auto prefix = bytes_of({.type = 1, .body_bytes = std::uint64_t{1} << 62});
  EXPECT_THROW(std::rethrow_exception(failure_after(prefix)), ResourceExhausted);
  const auto header = bytes_of({.type = 1, .header_bytes = 0xffff'ffff});
  EXPECT_THROW(std::rethrow_exception(failure_after(header)), ResourceExhausted);
}

TEST(Connection, AFrameThatStopsHalfWayIsGivenUp) {
  const std::string half = bytes_of({.type = 1, .body_bytes = 100}) + "ten bytes.";
  const auto failure = failure_after(half, Then::kStay, {.frame_stall = 50ms});
  EXPECT_THROW(std::rethrow_exception(failure), Unavailable);
  EXPECT_THAT(message_of([&] { std::rethrow_exception(failure); }),
              HasSubstr("stopped in the middle of a message"));
}

TEST(Connection, AnEndWithoutGoodbyeIsALoss) {
  const std::string frame = bytes_of({.type = 1, .header_bytes = 4}) + "four";
  EXPECT_THROW(std::rethrow_exception(failure_after(frame)), Unavailable);
  EXPECT_THROW(std::rethrow_exception(failure_after(frame.substr(0, 10))), Unavailable);
  EXPECT_THROW(std::rethrow_exception(failure_after(frame.substr(0, 26))), Unavailable);
  EXPECT_EQ(failure_after(frame + bytes_of({.type = kGoodbyeType})), nullptr);
}

TEST(Connection, AProcessKilledInTheMiddleOfAFrameIsLostByName) {
  Forked process([](const auto& hear) {
    const auto connection = Connection::connect(hear(), kConnectionClient, "test", soon());
    const std::vector<std::byte> body(64'000'000);
    connection->send(1, "half of it", body, Deadline::never());
    return 0;
  });
  std::promise<std::unique_ptr<Connection>> accepted;
  Listener listener("127.0.0.1:0", kConnectionServer, [&](std::unique_ptr<Connection> connection) {
    accepted.set_value(std::move(connection));
  });
  process.tell(listener.address());
  const auto connection = accepted.get_future().get();
  const auto info = connection->receive_header(soon());
  ASSERT_TRUE(info.has_value());
  std::vector<std::byte> body(info->body_bytes);
  connection->receive_body(std::span(body).first(1'000'000));
  process.send(SIGKILL);
  EXPECT_EQ(process.wait(), 128 + SIGKILL);
  const auto rest = [&] { connection->receive_body(std::span(body).subspan(1'000'000)); };
  EXPECT_THAT(message_of(rest), HasSubstr("worker:1 at 127.0.0.1:"));
  EXPECT_THAT(message_of([&] { connection->send(1, "", soon()); }), HasSubstr("was lost"));
  EXPECT_THROW(connection->receive(soon()), Unavailable);
}

TEST(Connect, WaitsForAListenerThatComesLater) {
  std::string address;
  {
    const RawTcpServer reserved;
    address = reserved.address();
  }
  auto connection = std::async(std::launch::async, [&] {
    return Connection::connect(address, kConnectionClient, "test", soon());
  });
  std::promise<std::string> purpose;
  Listener listener(address, kConnectionServer, [&](std::unique_ptr<Connection> accepted) {
    purpose.set_value(accepted->purpose());
  });
  EXPECT_EQ(connection.get()->peer_task(), "ps:0");
  EXPECT_EQ(purpose.get_future().get(), "test");
}

/// Error message of connect() with these options and half a second.
std::string connect_error(const std::string& address, const ConnectionOptions& options = {},
                          const Identity& self = kConnectionClient) {
  return message_of(
      [&] { Connection::connect(address, self, "test", Deadline::after(500ms), options); });
}

TEST(Connect, NamesTheTaskAndTheReasonWhenNobodyIsThere) {
  std::string address;
  {
    const RawTcpServer gone;
    address = gone.address();
  }
  const std::string message = connect_error(address, {.peer_task = "ps:0"});
  EXPECT_THAT(message, HasSubstr("could not connect to ps:0 at " + address + " within 0."));
  EXPECT_THAT(message, HasSubstr("it is not there (Connection refused)"));
  EXPECT_THROW(Connection::connect(address, kConnectionClient, "test", Deadline::after(1ms)),
               Unavailable);
  EXPECT_THAT(connect_error("no-such-host.invalid:1"), HasSubstr("cannot be found"));
  EXPECT_THAT(connect_error("no port here"), HasSubstr("not an address: 'no port here'"));
}

TEST(Connect, EndsEarlyWhenAskedToStop) {
  std::string address;
  {
    const RawTcpServer gone;
    address = gone.address();
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(
      Connection::connect(address, kConnectionClient, "test", soon(), {.stop = stop.get_token()}),
      Cancelled);
}

TEST(Connect, RefusalsNameTheirReason) {
  const auto ignore = [](std::unique_ptr<Connection>) {};
  Identity other_run = kConnectionServer;
  other_run.run_id = "run-b";
  Listener of_other_run("127.0.0.1:0", other_run, ignore);
  EXPECT_THAT(connect_error(of_other_run.address()),
              HasSubstr("is ps:0 of run run-b, this is run run-a"));
  Listener of_ours("127.0.0.1:0", kConnectionServer, ignore);
  Identity other_secret = kConnectionClient;
  other_secret.secret = "open barley";
  EXPECT_THAT(connect_error(of_ours.address(), {}, other_secret), HasSubstr("has another secret"));
  EXPECT_THROW(Connection::connect(of_ours.address(), other_secret, "test", soon()),
               PermissionDenied);
  EXPECT_THROW(Connection::connect(of_ours.address(), kConnectionClient, "test", soon(),
                                   {.peer_task = "ps:1"}),
               FailedPrecondition);
}

/// Error message of connect() for a server that answers with these bytes.
std::string error_of_server(std::string_view answer) {
  RawTcpServer server;
  std::jthread stranger([&] {
    RawTcp raw = server.accept();
    raw.send(answer);
    raw.read_to_end();
  });
  return connect_error(server.address());
}

TEST(Connect, AServerThatIsNoMusterIsNotTrusted) {
  EXPECT_THAT(error_of_server("HTTP/1.1 400 Bad Request\r\n\r\n"), HasSubstr("speaks HTTP"));
  EXPECT_THAT(error_of_server("SSH-2.0-OpenSSH_9.2\r\n"), HasSubstr("not muster's protocol"));
}

TEST(Connect, ASilentServerIsNamedAsSuch) {
  const RawTcpServer silent;
  EXPECT_THAT(connect_error(silent.address(), {.handshake_timeout = 50ms}),
              HasSubstr("takes connections but does not answer"));
}

TEST(Connect, ReportsAStallWithItsCause) {
  std::promise<std::string> seen;
  std::once_flag once;
  log::set_sink([&](log::Level, std::string_view line) {
    if (line.find("waits") == std::string_view::npos) return;
    std::call_once(once, [&] { seen.set_value(std::string(line)); });
  });
  const auto before = stall_after();
  set_stall_after(1ms);
  std::string address;
  {
    const RawTcpServer gone;
    address = gone.address();
  }
  std::stop_source stop;
  auto connection = std::async(std::launch::async, [&] {
    Connection::connect(address, kConnectionClient, "test", soon(),
                        {.peer_task = "ps:0", .stop = stop.get_token()});
  });
  EXPECT_THAT(seen.get_future().get(),
              HasSubstr("for ps:0 at " + address + ", which is not there"));
  stop.request_stop();
  EXPECT_THROW(connection.get(), Cancelled);
  set_stall_after(before);
  log::set_sink({});
}

TEST(Connection, KeepsADeadlineThoughSignalsComeAllTheTime) {
  struct sigaction nothing {};
  struct sigaction before {};
  nothing.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR2, &nothing, &before), 0);
  Pair pair;
  std::atomic<bool> is_over{false};
  std::thread receiver([&] {
    EXPECT_THROW(pair.server->receive(Deadline::after(300ms)), DeadlineExceeded);
    is_over = true;
  });
  const Deadline patience = soon();
  while (!is_over && !patience.expired()) {
    ::pthread_kill(receiver.native_handle(), SIGUSR2);
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_TRUE(is_over) << "it waits as long as there are signals";
  receiver.join();
  ::sigaction(SIGUSR2, &before, nullptr);
}

TEST(Connection, ReportsAReceiveThatWaitsLong) {
  Pair pair;
  std::promise<std::string> seen;
  std::once_flag once;
  log::set_sink([&](log::Level, std::string_view line) {
    if (line.find("waits") == std::string_view::npos) return;
    std::call_once(once, [&] { seen.set_value(std::string(line)); });
  });
  const auto before = stall_after();
  set_stall_after(1ms);
  std::jthread receiver([&] { pair.server->receive(soon()); });
  EXPECT_THAT(seen.get_future().get(), HasSubstr("for a message of worker:1 at 127.0.0.1:"));
  pair.client->send(1, "", soon());
  receiver.join();
  set_stall_after(before);
  log::set_sink({});
}

}  // namespace
}  // namespace muster::net
