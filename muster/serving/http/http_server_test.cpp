#include "muster/serving/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <atomic>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/semaphore.h"
#include "muster/serving/listener/event_loop.h"
#include "muster/serving/listener/listening_socket.h"
#include "muster/serving/listener/tls_identity_fake.h"
#include "muster/testing/eventually.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/raw_tcp.h"

namespace muster::serving {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RawTcp;
using ::testing::StartsWith;

constexpr std::size_t kLargeBytes = 20 << 20;

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServer& open(HttpServerOptions options = {}) {
    options.address = "127.0.0.1";
    options.workers = options.workers > 0 ? options.workers : 2;
    server_.emplace(
        std::move(options),
        [this](const HttpRequest& request) {
          if (request.target == "/hold") {
            held_.release();
            go_.acquire();
          }
          if (request.target == "/stream") {
            return HttpResponse{.content_type = "text/event-stream",
                                .body = "begins ",
                                .stream = [this](std::shared_ptr<HttpStream> stream) {
                                  stream_ = std::move(stream);
                                  held_.release();
                                }};
          }
          if (request.target == "/large")
            return HttpResponse{.body = std::string(kLargeBytes, 'x')};
          return HttpResponse{
              .content_type = "text/plain",
              .body = fmt::format("{} {} {}{}", request.method, request.target, request.body.size(),
                                  request.is_from_this_host ? " here" : "")};
        },
        [](const HttpRequest& request) {
          return request.method == "POST" ? std::optional(request.target) : std::nullopt;
        });
    return *server_;
  }
  RawTcp connect() { return RawTcp(fmt::format("127.0.0.1:{}", server_->port())); }
  std::string talk(std::string_view bytes) {
    RawTcp client = connect();
    client.send(bytes);
    return client.read_to_end();
  }

  Semaphore held_{0};
  Semaphore go_{0};
  std::shared_ptr<HttpStream> stream_;
  std::optional<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersRequestsOnOneConnectionOneAfterTheOther) {
  open();
  const std::string answers = talk(
      "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
      "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxyz"
      "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
      "2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n");
  EXPECT_THAT(answers, HasSubstr("GET /a 0 here"));
  EXPECT_THAT(answers, HasSubstr("POST /b 3 here"));
  EXPECT_THAT(answers, EndsWith("POST /c 3 here"));
}

TEST_F(HttpServerTest, AnswersHeadAsGetWithoutABody) {
  open();
  const std::string answer = talk("HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr(fmt::format("Content-Length: {}\r\n",
                                            std::string_view("GET /a 0 here").size())));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
  EXPECT_THAT(talk("HEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n"),
              AllOf(HasSubstr("text/event-stream"), EndsWith("\r\n\r\n")));
}

constexpr const char* kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

TEST_F(HttpServerTest, SaysContinueOnceToAClientThatWaits) {
  open();
  RawTcp client = connect();
  client.send("POST /b HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.read(std::string_view(kContinue).size()), kContinue);
  client.send("xyzGET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string answers = client.read_to_end();
  EXPECT_THAT(answers, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("POST /b 3 here"),
                             EndsWith("GET /a 0 here")));
  EXPECT_THAT(answers, Not(HasSubstr("100 Continue")));
}

TEST_F(HttpServerTest, SaysNoContinueToAClientThatDoesNotWait) {
  open();
  const std::string expect = "Expect: 100-continue\r\nConnection: close\r\n";
  for (const std::string& request :
       {"POST /b HTTP/1.1\r\nHost: h\r\n" + expect + "Content-Length: 3\r\n\r\nxyz",
        "POST /b HTTP/1.1\r\nHost: h\r\n" + expect + "Content-Length: 3\r\n\r\nx",
        "POST /b HTTP/1.0\r\n" + expect + "Content-Length: 3\r\n\r\n",
        "POST /b HTTP/1.1\r\nHost: h\r\n" + expect + "Content-Length: 0\r\n\r\n"}) {
    RawTcp client = connect();
    client.send(request);
    if (request.find("Content-Length: 3") != request.npos) {
      client.send(std::string_view("xyz").substr(request.size() - request.rfind('\n') - 1));
    }
    EXPECT_THAT(client.read_to_end(),
                AllOf(HasSubstr(" 200 OK"), HasSubstr("POST /b "), Not(HasSubstr("100 Continue"))))
        << request;
  }
}

TEST_F(HttpServerTest, RefusesAHostThatIsNone) {
  open();
  const auto with = [&](const std::string& headers) {
    return talk("GET /a HTTP/1.1\r\n" + headers + "Connection: close\r\n\r\n");
  };
  for (const char* host :
       {"h", "H-1.example:8501", "127.0.0.1:80", "[::1]:6800", "[fe80::1%25e0]", "", "a_b:"}) {
    EXPECT_THAT(with(fmt::format("Host: {}\r\n", host)), StartsWith("HTTP/1.1 200 ")) << host;
  }
  for (const char* host : {"localhost:6811@evil", "a@b", "h:80:80", "h:x", "[::1", "a/b", "a b",
                           "h, evil", "[::1]evil"}) {
    EXPECT_THAT(with(fmt::format("Host: {}\r\n", host)),
                AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("is no HOST:PORT")))
        << host;
  }
  EXPECT_THAT(with("Host: h\r\nHost: evil\r\n"),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("more than one Host")));
  EXPECT_THAT(with("Host: h\r\nhost: h\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(with(""), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("no Host header")));
  EXPECT_THAT(talk("GET /a HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 200 "));
}

TEST_F(HttpServerTest, SaysWhyItRefusesWhatFollowsARequestForAHeader) {
  open();
  EXPECT_THAT(talk("HEAD /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\nnonsense\r\n\r\n"),
              AllOf(HasSubstr("HTTP/1.1 400 "), EndsWith("}")));
}

TEST_F(HttpServerTest, RefusesWhatIsTooLargeBeforeItIsThere) {
  open({.max_header_bytes = 2000, .max_body_bytes = 1000});
  EXPECT_THAT(talk("POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\nx"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(talk("POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" +
                   std::string(1001, 'x') + "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(talk("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(3000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, RefusesWhatIsNoHttp) {
  open();
  EXPECT_THAT(talk("\x16\x03\x01 nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(talk("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(talk("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), EndsWith("here"));
}

TEST_F(HttpServerTest, TakesABodyInManyTinyChunks) {
  open();
  const int count = testing::are_tests_long() ? 1'000'000 : 100'000;
  std::string body;
  for (int i = 0; i < count; ++i) body += "1\r\nx\r\n";
  EXPECT_THAT(talk("POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
                   "Connection: close\r\n\r\n" +
                   body + "0\r\n\r\n"),
              EndsWith(fmt::format("POST /b {} here", count)));
}

TEST_F(HttpServerTest, TakesARequestByteByByte) {
  open();
  RawTcp client = connect();
  const std::string request =
      "POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
      "3\r\nabc\r\n2;x=\"y\"\r\nde\r\n0\r\nTrailer: t\r\n\r\n";
  for (const char byte : request) client.send(std::string_view(&byte, 1));
  EXPECT_THAT(client.read_to_end(), EndsWith("POST /b 5 here"));
}

TEST_F(HttpServerTest, RefusesAnEndlessLineInABody) {
  open();
  EXPECT_THAT(talk("POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;x=" +
                   std::string(1 << 20, 'x')),
              StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, SendsALargeAnswerWhole) {
  open();
  const std::string answer = talk("GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const auto end_of_header = answer.find("\r\n\r\n");
  ASSERT_NE(end_of_header, answer.npos);
  EXPECT_EQ(answer.size() - end_of_header - 4, kLargeBytes);
}

TEST_F(HttpServerTest, RefusesBodiesThatTogetherAreTooLarge) {
  const auto budget = std::make_shared<ByteBudget>(100'000);
  open({.body_budget = budget});
  const auto header = [](std::size_t size) {
    return fmt::format(
        "POST /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", size);
  };
  // A body that is only announced takes nothing of the budget.
  RawTcp announced = connect();
  announced.send(header(60'000'000) + "x");
  RawTcp first = connect();
  first.send(header(60'000) + std::string(59'999, 'x'));
  ASSERT_TRUE(testing::eventually([&] { return budget->used() >= 59'999; }));
  EXPECT_LT(budget->used(), 100'000);
  const std::string refusal = talk(header(50'000) + std::string(50'000, 'x'));
  EXPECT_THAT(refusal, StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(refusal, HasSubstr("Retry-After: 1\r\n"));
  first.send("x");
  EXPECT_THAT(first.read_to_end(), EndsWith("POST /b 60000 here"));
  EXPECT_THAT(talk(header(50'000) + std::string(50'000, 'x')), EndsWith("POST /b 50000 here"));
  { const RawTcp gone = std::move(announced); }
  EXPECT_TRUE(testing::eventually([&] { return budget->used() == 0; }));
}

TEST_F(HttpServerTest, SaysWhenThereAreTooManyConnections) {
  open({.max_connections = 2});
  std::optional<RawTcp> first(connect());
  const RawTcp second = connect();
  ASSERT_TRUE(testing::eventually([&] { return server_->connections() == 2; }));
  const std::string request = "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
  const std::string refusal = talk(request);
  EXPECT_THAT(refusal, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(refusal, HasSubstr("2 connections"));
  first.reset();
  EXPECT_TRUE(testing::eventually([&] { return talk(request).ends_with("here"); }));
}

TEST_F(HttpServerTest, AnswersOneQueueWhileAnotherIsInDemand) {
  open({.workers = 4, .max_waiting = 8});
  std::vector<RawTcp> many;
  for (int i = 0; i < 20; ++i) {
    many.push_back(connect());
    many.back().send("POST /hold HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  }
  for (int i = 0; i < 3; ++i) held_.acquire();
  EXPECT_THAT(talk("POST /other HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              EndsWith("POST /other 0 here"));
  go_.release(20);
  int refused = 0;
  for (RawTcp& client : many) refused += client.read_to_end().starts_with("HTTP/1.1 429 ") ? 1 : 0;
  EXPECT_EQ(refused, 20 - 3 - 8);
}

TEST_F(HttpServerTest, ReadsOnWhileMoreRequestsAreAnsweredThanThreadsRead) {
  open({.io_threads = 2, .workers = 8});
  std::vector<RawTcp> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(connect());
    // Some of a queue, some of none.
    clients.back().send(
        fmt::format("{} /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n"
                    "Connection: close\r\n\r\n",
                    i % 2 == 0 ? "GET" : "POST"));
    held_.acquire();
  }
  EXPECT_THAT(talk("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              EndsWith("GET /a 0 here"));
  go_.release(4);
  for (RawTcp& client : clients) EXPECT_THAT(client.read_to_end(), HasSubstr("/hold 0 here"));
}

TEST_F(HttpServerTest, LetsASlowClientGo) {
  open({.header_timeout = std::chrono::milliseconds(50),
        .body_timeout = std::chrono::milliseconds(50),
        .idle_timeout = std::chrono::milliseconds(50)});
  RawTcp silent = connect();
  EXPECT_EQ(silent.read_to_end(), "");
  RawTcp half_a_header = connect();
  half_a_header.send("GET / HT");
  EXPECT_EQ(half_a_header.read_to_end(), "");
  RawTcp half_a_body = connect();
  half_a_body.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx");
  EXPECT_EQ(half_a_body.read_to_end(), "");
  EXPECT_TRUE(testing::eventually([&] { return server_->connections() == 0; }));
}

TEST_F(HttpServerTest, RefusesRequestsWhenTooManyWait) {
  open({.workers = 1, .max_waiting = 1});
  const std::string request =
      "POST /hold HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
      "Content-Length: 0\r\n\r\n";
  RawTcp first = connect();
  first.send(request);
  held_.acquire();  // It is being answered.
  RawTcp second = connect();
  second.send(request);
  RawTcp third = connect();
  third.send(request);
  // One of the two waits; for the other there is no room.
  std::atomic<int> refused{0};
  const auto read = [&](RawTcp& client) {
    if (client.read_to_end().starts_with("HTTP/1.1 429 ")) ++refused;
  };
  std::jthread second_reader([&] { read(second); });
  std::jthread third_reader([&] { read(third); });
  EXPECT_TRUE(testing::eventually([&] { return refused == 1; }));
  // A request that does not wait is answered all the same.
  EXPECT_THAT(talk("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), EndsWith("here"));
  go_.release(2);
  second_reader.join();
  third_reader.join();
  EXPECT_EQ(refused, 1);
}

TEST_F(HttpServerTest, DrainsByAnsweringWhatIsInFlight) {
  open();
  RawTcp idle = connect();
  RawTcp busy = connect();
  busy.send("POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
  held_.acquire();
  ASSERT_TRUE(testing::eventually([&] { return server_->connections() == 2; }));
  EXPECT_FALSE(server_->drain(Deadline::after(std::chrono::milliseconds(20))));
  EXPECT_EQ(idle.read_to_end(), "");
  go_.release();
  EXPECT_TRUE(server_->drain(Deadline::never()));
  const std::string answer = busy.read_to_end();
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
  EXPECT_THAT(answer, EndsWith("POST /hold 0 here"));
}

TEST_F(HttpServerTest, SaysWhenItsPortIsTaken) {
  open();
  const std::uint16_t taken = server_->port();
  EXPECT_THROW(HttpServer({.address = "127.0.0.1", .port = taken}, {}, {}), Unavailable);
  EXPECT_THROW(check_port("127.0.0.1", taken), Unavailable);
  EXPECT_THROW(check_port("", taken), Unavailable);
  EXPECT_THROW(check_port("nowhere", 0), InvalidArgument);
  EXPECT_NO_THROW(check_port("127.0.0.1", 0));
  EXPECT_THROW(HttpServer({.address = "nowhere"}, {}, {}), InvalidArgument);
  EXPECT_THROW(HttpServer({.tls = {.certificate = "x", .key = "y"}}, {}, {}), InvalidArgument);
}

/// A client with a certificate, one connection after the other.
class TlsVisitor {
 public:
  explicit TlsVisitor(const TlsIdentity& identity) {
    ::SSL_CTX_use_certificate(context_.get(), identity.certificate.get());
    ::SSL_CTX_use_PrivateKey(context_.get(), identity.key.get());
  }

  /// Asks, on a connection that takes up the session of the last one.
  std::string ask(const RawTcp& tcp) {
    const std::unique_ptr<SSL, void (*)(SSL*)> ssl(::SSL_new(context_.get()), ::SSL_free);
    ::SSL_set_fd(ssl.get(), tcp.descriptor());
    if (session_) ::SSL_set_session(ssl.get(), session_.get());
    constexpr std::string_view kRequest = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";
    if (::SSL_connect(ssl.get()) != 1) return "";
    if (::SSL_write(ssl.get(), kRequest.data(), static_cast<int>(kRequest.size())) <= 0) return "";
    std::string answer;
    char piece[1 << 10];
    while (!answer.ends_with("here")) {
      const int size = ::SSL_read(ssl.get(), piece, sizeof piece);
      if (size <= 0) return answer;
      answer.append(piece, static_cast<std::size_t>(size));
    }
    ::SSL_shutdown(ssl.get());  // The session of a connection that breaks is not resumed.
    session_.reset(::SSL_get1_session(ssl.get()));
    is_resumed_ = ::SSL_session_reused(ssl.get()) == 1;
    const STACK_OF(X509_NAME)* const names = ::SSL_get0_peer_CA_list(ssl.get());
    authorities_ = names != nullptr ? sk_X509_NAME_num(names) : 0;
    return answer;
  }
  bool is_resumed() const { return is_resumed_; }
  /// Whose certificates the server has said to want.
  int authorities() const { return authorities_; }

 private:
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_{::SSL_CTX_new(::TLS_client_method()),
                                                        ::SSL_CTX_free};
  std::unique_ptr<SSL_SESSION, void (*)(SSL_SESSION*)> session_{nullptr, ::SSL_SESSION_free};
  bool is_resumed_ = false;
  int authorities_ = 0;
};

TEST_F(HttpServerTest, ResumesSessionsOfClientsWithCertificates) {
  const TlsIdentity identity;
  const TlsIdentity known;
  TlsOptions tls = identity.options();
  tls.client_ca = known.certificate_text();
  tls.require_client = true;
  open({.tls = tls});
  TlsVisitor visitor(known);
  EXPECT_THAT(visitor.ask(connect()), EndsWith("GET /x 0 here"));
  EXPECT_FALSE(visitor.is_resumed());
  EXPECT_EQ(visitor.authorities(), 1);
  EXPECT_THAT(visitor.ask(connect()), EndsWith("GET /x 0 here"));
  EXPECT_TRUE(visitor.is_resumed());
  EXPECT_EQ(TlsVisitor(TlsIdentity()).ask(connect()), "");
}

/// A server that begins to answer, on a loop that others use too.
class HttpServerOnALoop : public ::testing::Test {
 protected:
  HttpServer& open(HttpServer::Start start) {
    server_.emplace(
        HttpServerOptions{.address = "127.0.0.1", .loop = loop_},
        [](const HttpRequest& request) { return HttpResponse{.body = "handled " + request.body}; },
        [](const HttpRequest&) { return std::string("queue"); }, std::move(start));
    return *server_;
  }
  RawTcp connect() { return RawTcp(fmt::format("127.0.0.1:{}", server_->port())); }

  std::shared_ptr<EventLoop> loop_ = std::make_shared<EventLoop>(2);
  std::optional<HttpServer> server_;
};

TEST_F(HttpServerOnALoop, AnswersWhenTheAnswerIsThere) {
  Semaphore begun(0);
  std::vector<std::shared_ptr<HttpReply>> replies;
  open([&](HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    if (request.target != "/later") return false;
    replies.push_back(reply);
    begun.release();
    return true;
  });
  // More than there are threads, one after the other, and none of them waits.
  std::vector<RawTcp> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(connect());
    clients.back().send("GET /later HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    begun.acquire();
  }
  RawTcp other = connect();
  other.send("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_THAT(other.read_to_end(), EndsWith("handled hi"));
  for (std::size_t i = replies.size(); i-- > 0;) {
    replies[i]->reply({.body = fmt::format("answer {}", i)});
    EXPECT_THAT(clients[i].read_to_end(), EndsWith(fmt::format("answer {}", i)));
  }
}

TEST_F(HttpServerOnALoop, AnswersThousandsOfRequestsThatComeAsOne) {
  open([&](HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    reply->reply({.status = 404, .body = "x"});  // Further down the stack of the one before?
    return true;
  });
  constexpr int kRequests = 20'000;
  std::string requests;
  for (int i = 1; i < kRequests; ++i) requests += "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  requests += "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
  RawTcp client = connect();
  std::jthread sender([&] { client.send(requests); });
  const std::string answers = client.read_to_end();
  int count = 0;
  for (auto at = answers.find("HTTP/1.1 404"); at != answers.npos;
       at = answers.find("HTTP/1.1 404", at + 1)) {
    ++count;
  }
  EXPECT_EQ(count, kRequests);
}

TEST_F(HttpServerOnALoop, EndsWithoutTheLoop) {
  std::shared_ptr<HttpReply> reply;
  Semaphore begun(0);
  open([&](HttpRequest&, const std::shared_ptr<HttpReply>& given) {
    reply = given;
    begun.release();
    return true;
  });
  RawTcp idle = connect();
  RawTcp busy = connect();
  busy.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  begun.acquire();
  ASSERT_TRUE(testing::eventually([&] { return server_->connections() == 2; }));
  std::jthread answering([&] {
    EXPECT_EQ(idle.read_to_end(), "");
    std::exchange(reply, nullptr)->reply({});
  });
  server_.reset();
  answering.join();
  Semaphore ran(0);
  loop_->post([&] { ran.release(); });
  ran.acquire();
}

TEST_F(HttpServerTest, AStreamGoesOnUntilItIsClosed) {
  open();
  RawTcp client = connect();
  client.send("GET /stream HTTP/1.1\r\nHost: here\r\n\r\n");
  held_.acquire();
  EXPECT_TRUE(stream_->send("goes on "));
  EXPECT_TRUE(stream_->send("and on"));
  stream_->close();
  const std::string answer = client.read_to_end();
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\nbegins goes on and on")));
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
  EXPECT_THAT(answer, Not(HasSubstr("Content-Length")));
  EXPECT_FALSE(stream_->send("behind the end"));
  EXPECT_TRUE(testing::eventually([&] { return server_->connections() == 0; }));
}

TEST_F(HttpServerTest, AStreamEndsWhenItsClientHasGone) {
  open();
  {
    RawTcp client = connect();
    client.send("GET /stream HTTP/1.1\r\nHost: here\r\n\r\n");
    held_.acquire();
  }
  EXPECT_TRUE(testing::eventually([&] { return !stream_->send("is anybody there? "); }));
  EXPECT_TRUE(testing::eventually([&] { return server_->connections() == 0; }));
}

TEST_F(HttpServerTest, AStreamThatNobodyTakesIsEndedBeforeItFillsTheMemory) {
  open();
  RawTcp client = connect();
  client.send("GET /stream HTTP/1.1\r\nHost: here\r\n\r\n");
  held_.acquire();
  const std::string piece(1 << 20, 'x');
  int pieces = 0;
  while (pieces < 1000 && stream_->send(piece)) ++pieces;
  EXPECT_LT(pieces, 1000);
  EXPECT_TRUE(testing::eventually([&] { return server_->connections() == 0; }));
}

TEST_F(HttpServerTest, AStreamThatIsOpenOutlivesNeitherDrainNorServer) {
  open();
  RawTcp client = connect();
  client.send("GET /stream HTTP/1.1\r\nHost: here\r\n\r\n");
  held_.acquire();
  EXPECT_FALSE(server_->drain(Deadline::after(std::chrono::milliseconds(20))));
  server_.reset();
  EXPECT_FALSE(stream_->send("after the end"));
  EXPECT_THAT(client.read_to_end(), EndsWith("begins "));
}

}  // namespace
}  // namespace muster::serving
