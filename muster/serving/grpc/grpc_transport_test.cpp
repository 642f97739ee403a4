#include "muster/serving/grpc/grpc_transport.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "muster/serving/grpc/http2_client_fake.h"
#include "muster/serving/http/http_message.h"
#include "muster/testing/eventually.h"
#include "muster/testing/temp_dir.h"

namespace muster::serving {
namespace {

using http2::Answer;
using http2::Client;

/// A server with methods of every kind, and no models.
class GrpcTransportTest : public ::testing::Test {
 protected:
  GrpcTransportTest() {
    add("/t/Echo", GrpcWork::kShort,
        [](const GrpcCallPtr& call) { call->answer(std::string(call->request())); });
    add("/t/Fail", GrpcWork::kLong,
        [](const GrpcCallPtr&) { throw NotFound("no such thing: 100%\n"); });
    add("/t/Full", GrpcWork::kShort, [](const GrpcCallPtr&) { throw ResourceExhausted("full"); });
    add("/t/Who", GrpcWork::kShort, [](const GrpcCallPtr& call) {
      const GrpcContext& context = call->context();
      call->answer(fmt::format(
          "{} {} {}", context.authorization, context.is_from_this_host,
          context.deadline.is_never()
              ? -1
              : std::chrono::round<std::chrono::hours>(context.deadline.remaining()).count()));
    });
    add("/t/Later", GrpcWork::kShort, [this](const GrpcCallPtr& call) {
      const std::lock_guard lock(mutex_);
      later_.push_back(call);
    });
    add("/t/Many", GrpcWork::kLong, [](const GrpcCallPtr& call) {
      for (const char* text : {"a", "b", "c"}) call->send(text);
      call->finish({});
    });
    methods_["/t/Talk"] = {
        .converse = [this](const GrpcContext&, std::string_view message, const GrpcReply& reply) {
          ++talked_;
          if (message == "wrong") throw InvalidArgument("wrong");
          if (message == "bad") return reply("", std::make_exception_ptr(InvalidArgument("bad")));
          reply(std::string(message) + "!", nullptr);
        }};
  }
  ~GrpcTransportTest() override {
    later_.clear();
    server_.reset();
  }

  void add(const char* name, GrpcWork work, std::function<void(const GrpcCallPtr&)> handle) {
    methods_[name] = {.work = work, .handle = [this, handle](const GrpcCallPtr& call) {
                        ++handled_;
                        handle(call);
                      }};
  }

  std::string start(GrpcTransportOptions options = {}) {
    options.address = "127.0.0.1";
    server_.emplace(loop_, options, methods_);
    return fmt::format("127.0.0.1:{}", server_->port());
  }

  std::vector<GrpcCallPtr> later() {
    const std::lock_guard lock(mutex_);
    return later_;
  }
  void wait_for_later(std::size_t count) {
    EXPECT_TRUE(testing::eventually([&] { return later().size() == count; }));
  }

  std::shared_ptr<EventLoop> loop_ = std::make_shared<EventLoop>();
  GrpcMethods methods_{};
  std::optional<GrpcTransport> server_{};
  std::atomic<int> handled_{0};
  std::atomic<int> talked_{0};
  std::mutex mutex_{};
  std::vector<GrpcCallPtr> later_{};
};

std::string whole_call(std::size_t stream, const std::string& method, const std::string& message,
                       const std::string& more = "") {
  return http2::begun_call(stream, method, more) + http2::message(stream, message);
}

TEST_F(GrpcTransportTest, AnswersACall) {
  Client client(start());
  client.send(whole_call(1, "/t/Echo", "hello"));
  const Answer& answer = client.answer(1);
  EXPECT_EQ(answer.data, std::string("\0\0\0\0\5hello", 10));
  EXPECT_EQ(answer.fields.at(":status"), "200");
  EXPECT_EQ(answer.fields.at("content-type"), "application/grpc");
  EXPECT_EQ(answer.fields.at("grpc-status"), "0");
  client.send(whole_call(3, "/t/Echo", ""));
  EXPECT_EQ(client.answer(3).data, std::string(5, '\0'));
}

TEST_F(GrpcTransportTest, AnswersManyCallsAtOneTime) {
  Client client(start());
  std::string bytes;
  for (std::size_t id = 1; id < 401; id += 2) {
    bytes += whole_call(id, id % 4 == 1 ? "/t/Echo" : "/t/Many", std::to_string(id));
  }
  client.send(bytes);
  for (std::size_t id = 1; id < 401; id += 2) {
    const Answer& answer = client.answer(id);
    if (id % 4 == 1) {
      EXPECT_EQ(answer.message(), std::to_string(id));
    } else {
      EXPECT_EQ(answer.data, std::string("\0\0\0\0\1a\0\0\0\0\1b\0\0\0\0\1c", 18));
    }
    EXPECT_EQ(answer.fields.at("grpc-status"), "0");
  }
}

TEST_F(GrpcTransportTest, AnswersFailuresWithTheirStatus) {
  Client client(start());
  client.send(whole_call(1, "/t/Fail", "x") + whole_call(3, "/t/Full", "x") +
              whole_call(5, "/t/Nothing", "x"));
  EXPECT_EQ(client.answer(1).fields.at("grpc-status"), "5");
  EXPECT_EQ(client.answer(1).fields.at("grpc-message"), "no such thing: 100%25%0A");
  EXPECT_EQ(client.answer(3).fields.at("grpc-status"), "8");
  EXPECT_EQ(client.answer(3).fields.at("grpc-retry-pushback-ms"), "1000");
  EXPECT_EQ(client.answer(5).fields.at("grpc-status"), "12");
}

TEST_F(GrpcTransportTest, RefusesWhatIsNoGrpc) {
  Client client(start());
  const std::string fields = http2::header(":scheme", "http") + http2::header(":path", "/t/Echo") +
                             http2::header(":authority", "h");
  const char flags = http2::kEndOfHeaders | http2::kEndOfStream;
  client.send(http2::frame(http2::kHeaders, flags, 1, http2::header(":method", "POST") + fields));
  EXPECT_EQ(client.answer(1).fields.at(":status"), "415");
  client.send(http2::frame(http2::kHeaders, flags, 3,
                           http2::header(":method", "GET") + fields +
                               http2::header("content-type", "application/grpc")));
  EXPECT_EQ(client.answer(3).fields.at(":status"), "405");
  EXPECT_EQ(handled_, 0);
}

TEST_F(GrpcTransportTest, ReadsWhatACallSaysBesideItsMessage) {
  Client client(start());
  client.send(whole_call(1, "/t/Who", "") + whole_call(3, "/t/Who", "",
                                                       http2::header("authorization", "Bearer t") +
                                                           http2::header("grpc-timeout", "5H")));
  EXPECT_EQ(client.answer(1).message(), " true -1");
  EXPECT_EQ(client.answer(3).message(), "Bearer t true 5");
}

TEST_F(GrpcTransportTest, SaysWhatIsWrongWithMessages) {
  Client client(start({.max_message_bytes = 1'000}));
  client.send(whole_call(1, "/t/Echo", std::string(1'001, 'x')));
  EXPECT_EQ(client.answer(1).fields.at("grpc-status"), "8");
  EXPECT_EQ(client.answer(1).fields.at("grpc-message"),
            "Received message larger than max (1001 vs. 1000)");
  // Before it is there.
  client.send(http2::begun_call(3, "/t/Echo") +
              http2::frame(http2::kData, 0, 3, std::string("\0\xFF\0\0\0", 5)));
  EXPECT_EQ(client.answer(3).fields.at("grpc-status"), "8");
  client.send(http2::begun_call(5, "/t/Echo") + http2::frame(http2::kData, 1, 5, ""));
  EXPECT_EQ(client.answer(5).fields.at("grpc-message"), "No payload");
  client.send(http2::begun_call(7, "/t/Echo") +
              http2::frame(http2::kData, 1, 7, std::string("\0\0\0\0\2x", 6)));
  EXPECT_EQ(client.answer(7).fields.at("grpc-message"), "a message is cut short");
  client.send(http2::begun_call(9, "/t/Echo") + http2::message(9, "a", 0) + http2::message(9, "b"));
  EXPECT_EQ(client.answer(9).fields.at("grpc-status"), "13");
  client.send(http2::begun_call(11, "/t/Echo") + http2::message(11, "a", 1, 1));
  EXPECT_EQ(client.answer(11).fields.at("grpc-status"), "13");
  EXPECT_EQ(handled_, 0);
  client.send(whole_call(13, "/t/Echo", std::string(1'000, 'x')));
  EXPECT_EQ(client.answer(13).message().size(), 1'000);
}

TEST_F(GrpcTransportTest, ReadsCompressedMessagesWithinItsLimits) {
  Client client(start({.max_message_bytes = 100'000}));
  const auto compressed = [](std::size_t stream, const char* method, const std::string& text) {
    return http2::begun_call(stream, method, http2::header("grpc-encoding", "gzip")) +
           http2::message(stream, gzipped(text), http2::kEndOfStream, 1);
  };
  client.send(compressed(1, "/t/Echo", "hello"));
  EXPECT_EQ(client.answer(1).message(), "hello");
  client.send(compressed(3, "/t/Echo", std::string(1'000'000, 'x')));
  EXPECT_EQ(client.answer(3).fields.at("grpc-status"), "8");
  client.send(compressed(5, "/t/Talk", "hello"));
  EXPECT_EQ(client.answer(5).message(), "hello!");
  client.send(http2::begun_call(7, "/t/Echo", http2::header("grpc-encoding", "snappy")) +
              http2::message(7, "x", http2::kEndOfStream, 1));
  EXPECT_EQ(client.answer(7).fields.at("grpc-status"), "12");
  EXPECT_EQ(client.answer(7).fields.at("grpc-accept-encoding"), "identity,deflate,gzip");
}

TEST_F(GrpcTransportTest, LeavesWhatTakesLongToReadToOtherThreads) {
  add("/t/Where", GrpcWork::kBySize, [this](const GrpcCallPtr& call) {
    call->answer(loop_->this_thread() ? "in the loop" : "elsewhere");
  });
  Client client(start());
  // In frames of the size that is allowed.
  const auto call_of = [](std::size_t stream, std::size_t size) {
    std::string message = grpc_prefix(size) + std::string(size, 'x');
    std::string bytes = http2::begun_call(stream, "/t/Where");
    for (; message.size() > 16'000; message.erase(0, 16'000)) {
      bytes += http2::frame(http2::kData, 0, stream, message.substr(0, 16'000));
    }
    return bytes + http2::frame(http2::kData, http2::kEndOfStream, stream, message);
  };
  client.send(call_of(1, 60'000));
  EXPECT_EQ(client.answer(1).message(), "in the loop");
  client.send(call_of(3, 70'000));
  EXPECT_EQ(client.answer(3).message(), "elsewhere");
  client.send(http2::begun_call(5, "/t/Where", http2::header("grpc-encoding", "gzip")) +
              http2::message(5, gzipped("x"), http2::kEndOfStream, 1));
  EXPECT_EQ(client.answer(5).message(), "elsewhere");
}

TEST_F(GrpcTransportTest, RefusesAHeaderThatIsTooLarge) {
  Client client(start());
  std::string more;
  for (int i = 0; i < 150; ++i) more += http2::header(fmt::format("x{}", i), std::string(100, 'x'));
  const std::string block = http2::call_headers("/t/Echo") + more;
  client.send(http2::frame(http2::kHeaders, 0, 1, block.substr(0, 16'000)) +
              http2::frame(http2::kContinuation, http2::kEndOfHeaders, 1, block.substr(16'000)) +
              http2::message(1, "x"));
  EXPECT_EQ(client.answer(1).fields.at("grpc-status"), "8");
  EXPECT_EQ(handled_, 0);
  client.send(whole_call(3, "/t/Echo", "x"));
  EXPECT_EQ(client.answer(3).message(), "x");
}

TEST_F(GrpcTransportTest, RefusesMessagesThatTogetherAreTooLarge) {
  const std::string address = start({.max_total_bytes = 100'000});
  Client one(address);
  one.send(whole_call(1, "/t/Later", std::string(16'000, 'x')));
  wait_for_later(1);
  Client other(address);
  std::string bytes = http2::begun_call(1, "/t/Echo");
  bytes += http2::frame(http2::kData, 0, 1, '\0' + http2::big_endian(96'000, 4));
  for (int i = 0; i < 6; ++i) bytes += http2::frame(http2::kData, 0, 1, std::string(16'000, 'x'));
  other.send(bytes);
  EXPECT_EQ(other.answer(1).fields.at("grpc-status"), "8");
  later()[0]->answer("done");
  EXPECT_EQ(one.answer(1).message(), "done");
}

TEST_F(GrpcTransportTest, TakesAnswersFromAnyThread) {
  Client client(start());
  std::string bytes;
  for (std::size_t id = 1; id < 101; id += 2) bytes += whole_call(id, "/t/Later", "x");
  client.send(bytes);
  wait_for_later(50);
  {
    std::vector<std::jthread> threads;
    for (const auto& call : later()) {
      threads.emplace_back([call] {
        call->answer("first");
        call->answer("second");
        call->finish({ErrorCode::kInternal, ""});
      });
    }
  }
  for (std::size_t id = 1; id < 101; id += 2) {
    EXPECT_EQ(client.answer(id).data, std::string("\0\0\0\0\5first", 10));
    EXPECT_EQ(client.answer(id).fields.at("grpc-status"), "0");
  }
}

TEST_F(GrpcTransportTest, SendsALargeAnswerAsItsClientReads) {
  const std::string large(5'000'000, 'x');
  add("/t/Large", GrpcWork::kShort, [&](const GrpcCallPtr& call) { call->answer(large); });
  Client client(start());
  client.send(whole_call(1, "/t/Large", "x"));
  std::size_t told = 0;
  while (!client.reader()[1].is_ended) {
    ASSERT_TRUE(client.read());
    const std::size_t more = client.reader()[1].data.size() - told;
    if (more < 30'000) continue;
    told += more;
    client.send(http2::frame(http2::kWindowUpdate, 0, 0, http2::big_endian(more, 4)) +
                http2::frame(http2::kWindowUpdate, 0, 1, http2::big_endian(more, 4)));
  }
  EXPECT_EQ(client.reader()[1].message(), large);
}

TEST_F(GrpcTransportTest, AnswersTheMessagesOfAStreamInTurn) {
  Client client(start());
  client.send(http2::begun_call(1, "/t/Talk") + http2::message(1, "a", 0) +
              http2::message(1, "b", 0));
  while (client.reader()[1].data.size() < 14) ASSERT_TRUE(client.read());
  EXPECT_EQ(client.reader()[1].data, std::string("\0\0\0\0\2a!\0\0\0\0\2b!", 14));
  client.send(http2::message(1, "c"));
  EXPECT_EQ(client.answer(1).data.size(), 21);
  EXPECT_EQ(client.answer(1).fields.at("grpc-status"), "0");
  client.send(http2::begun_call(3, "/t/Talk") + http2::message(3, "wrong", 0));
  EXPECT_EQ(client.answer(3).fields.at("grpc-status"), "3");
  client.send(http2::begun_call(5, "/t/Talk") + http2::message(5, "bad", 0));
  EXPECT_EQ(client.answer(5).fields.at("grpc-status"), "3");
  client.send(http2::begun_call(7, "/t/Talk") + http2::frame(http2::kData, 1, 7, ""));
  EXPECT_EQ(client.answer(7).fields.at("grpc-status"), "0");
}

TEST_F(GrpcTransportTest, AnswersTheMessagesOfAStreamLaterWithoutAThread) {
  std::vector<GrpcReply> replies;
  const auto count = [&] {
    const std::lock_guard lock(mutex_);
    return replies.size();
  };
  const auto reply = [&](std::size_t index, const std::string& answer) {
    GrpcReply one;
    {
      const std::lock_guard lock(mutex_);
      one = std::exchange(replies[index], nullptr);
    }
    one(answer, nullptr);
  };
  methods_["/t/Wait"] = {
      .work = GrpcWork::kShort,
      .converse = [&](const GrpcContext&, std::string_view, const GrpcReply& next) {
        const std::lock_guard lock(mutex_);
        replies.push_back(next);
      }};
  Client client(start({.threads = 1}));
  const auto waits_for = [&](std::size_t wanted) {
    return testing::eventually([&] { return count() == wanted; });
  };
  // More streams than threads wait for an answer each, and their next messages for that.
  for (std::size_t stream = 1; stream < 9; stream += 2) {
    client.send(http2::begun_call(stream, "/t/Wait") + http2::message(stream, "x", 0) +
                http2::message(stream, "x"));
  }
  EXPECT_TRUE(waits_for(4));
  client.send(http2::frame(http2::kPing, 0, 0, "12345678"));
  EXPECT_TRUE(client.wait_for(http2::kPing, http2::kAcknowledge));
  EXPECT_EQ(count(), 4);
  for (std::size_t i = 0; i < 4; ++i) reply(i, "first");
  EXPECT_TRUE(waits_for(8));
  for (std::size_t i = 4; i < 8; ++i) reply(i, "second");
  for (std::size_t stream = 1; stream < 9; stream += 2) {
    EXPECT_EQ(client.answer(stream).data.size(), 5 + 5 + 5 + 6);
    EXPECT_EQ(client.answer(stream).fields.at("grpc-status"), "0");
  }
}

TEST_F(GrpcTransportTest, KeepsTheOrderOfAStreamWhoeverAnswers) {
  methods_["/t/Post"] = {
      .work = GrpcWork::kShort,
      .converse = [this](const GrpcContext&, std::string_view message, const GrpcReply& reply) {
        std::string answer(message);
        if (talked_++ % 3 == 0) return reply(std::move(answer), nullptr);
        loop_->post([reply, answer] { reply(answer, nullptr); });
      }};
  Client client(start());
  std::string bytes = http2::begun_call(1, "/t/Post");
  std::string expected;
  for (int i = 0; i < 1'000; ++i) {
    const std::string number = fmt::format("{:04}", i);
    bytes += http2::message(1, number, i == 999 ? http2::kEndOfStream : '\0');
    expected += grpc_prefix(number.size()) + number;
  }
  client.send(bytes);
  EXPECT_EQ(client.answer(1).data, expected);
  EXPECT_EQ(client.answer(1).fields.at("grpc-status"), "0");
}

TEST_F(GrpcTransportTest, AnswersNoMoreOfAStreamThanItsClientReads) {
  methods_["/t/Grow"] = {
      .converse = [this](const GrpcContext&, std::string_view, const GrpcReply& reply) {
        ++talked_;
        reply(std::string(600'000, 'x'), nullptr);
      }};
  Client client(start());
  std::string bytes = http2::begun_call(1, "/t/Grow");
  for (int i = 0; i < 100; ++i) bytes += http2::message(1, "x", 0);
  client.send(bytes);
  // Two answers are more than may wait.
  EXPECT_TRUE(testing::eventually([&] { return talked_ == 2; }));
  client.send(http2::frame(http2::kPing, 0, 0, "12345678"));
  EXPECT_TRUE(client.wait_for(http2::kPing, http2::kAcknowledge));
  EXPECT_EQ(talked_, 2);
  client.send(http2::frame(http2::kWindowUpdate, 0, 0, http2::big_endian(3'000'000, 4)) +
              http2::frame(http2::kWindowUpdate, 0, 1, http2::big_endian(3'000'000, 4)));
  while (client.reader()[1].data.size() < 2'500'000) ASSERT_TRUE(client.read());
  EXPECT_GT(talked_, 4);
  EXPECT_LT(talked_, 9);
}

TEST_F(GrpcTransportTest, TellsOfClientsThatGo) {
  const std::string address = start();
  std::atomic<int> cancelled = 0;
  Client staying(address);
  {
    Client client(address);
    client.send(whole_call(1, "/t/Later", "x") + whole_call(3, "/t/Later", "x") +
                whole_call(5, "/t/Later", "x"));
    wait_for_later(3);
    for (const auto& call : later()) call->on_cancel([&] { ++cancelled; });
    later()[0]->finish({});
    client.answer(1);
    client.send(http2::reset(3));
    EXPECT_TRUE(testing::eventually([&] { return later()[1]->is_cancelled(); }));
    EXPECT_FALSE(later()[2]->is_cancelled());
  }
  EXPECT_TRUE(testing::eventually([&] { return later()[2]->is_cancelled(); }));
  for (const auto& call : later()) call->answer("too late");
  // A callback that is set afterwards is called at once.
  int again = 0;
  later()[2]->on_cancel([&] { ++again; });
  EXPECT_EQ(again, 1);
  EXPECT_TRUE(testing::eventually([&] { return cancelled >= 2; }));
  staying.send(whole_call(1, "/t/Echo", "x"));
  EXPECT_EQ(staying.answer(1).message(), "x");
}

TEST_F(GrpcTransportTest, DoesNotComputeCallsThatAreReset) {
  Client client(start());
  std::string bytes;
  for (std::size_t id = 1; id < 201; id += 2) {
    bytes += http2::begun_call(id, "/t/Echo") + http2::reset(id);
  }
  client.send(bytes + whole_call(201, "/t/Echo", "x"));
  EXPECT_EQ(client.answer(201).message(), "x");
  EXPECT_EQ(handled_, 1);
}

TEST_F(GrpcTransportTest, DrainsByAnsweringWhatIsInFlight) {
  Client client(start());
  client.send(whole_call(1, "/t/Later", "x") + http2::begun_call(3, "/t/Talk"));
  wait_for_later(1);
  auto drained = std::async(std::launch::async, [&] { return server_->drain(Deadline::never()); });
  // A stream that waits for its client is ended.
  EXPECT_EQ(client.answer(3).fields.at("grpc-status"), "14");
  EXPECT_EQ(client.reader().goaway(), NGHTTP2_NO_ERROR);
  later()[0]->answer("done");
  EXPECT_EQ(client.answer(1).message(), "done");
  EXPECT_FALSE(client.wait_for(http2::kData));
  EXPECT_TRUE(drained.get());
}

TEST_F(GrpcTransportTest, ClosesWhatIsNotAnsweredInTime) {
  Client client(start());
  client.send(whole_call(1, "/t/Later", "x"));
  wait_for_later(1);
  EXPECT_FALSE(server_->drain(Deadline::after(std::chrono::milliseconds(50))));
  EXPECT_TRUE(later()[0]->is_cancelled());
  EXPECT_FALSE(client.wait_for(http2::kData));
}

TEST_F(GrpcTransportTest, SendsAwayWhoIsIdleOrStaysTooLong) {
  using std::chrono::milliseconds;
  Client idle(start({.max_idle = milliseconds(1)}));
  EXPECT_TRUE(idle.wait_for(http2::kGoaway));
  EXPECT_FALSE(idle.wait_for(http2::kData));
  server_.reset();
  Client old(start({.max_age = milliseconds(1)}));
  EXPECT_TRUE(old.wait_for(http2::kGoaway));
  server_.reset();
  // The client answers no pings.
  Client silent(start({.keepalive_time = milliseconds(1), .keepalive_timeout = milliseconds(1)}));
  EXPECT_TRUE(silent.wait_for(http2::kPing));
  EXPECT_FALSE(silent.wait_for(http2::kData));
}

TEST_F(GrpcTransportTest, ResetsRequestsThatStop) {
  Client client(start({.stall_timeout = std::chrono::milliseconds(1)}));
  client.send(http2::begun_call(1, "/t/Echo"));
  EXPECT_EQ(client.answer(1).reset, NGHTTP2_CANCEL);
}

TEST_F(GrpcTransportTest, ListensOnAUnixSocket) {
  const testing::TempDir folder;
  const std::string path = (folder / "socket").string();
  start({.socket_path = path});
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  Client client(descriptor);
  client.send(whole_call(1, "/t/Who", "x"));
  EXPECT_EQ(client.answer(1).message(), " true -1");
}

TEST_F(GrpcTransportTest, SaysWhenItsPortIsTakenOrNone) {
  start();
  EXPECT_THROW(GrpcTransport(loop_, {.address = "127.0.0.1", .port = server_->port()}, methods_),
               Unavailable);
  EXPECT_THROW(GrpcTransport(loop_, {.address = "nowhere"}, methods_), InvalidArgument);
  EXPECT_THROW(GrpcTransport(loop_, {.tls = {.certificate = "x", .key = "y"}}, methods_),
               InvalidArgument);
}

}  // namespace
}  // namespace muster::serving
