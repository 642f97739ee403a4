#include "muster/serving/front/front_server.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "muster/base/semaphore.h"
#include "muster/testing/eventually.h"
#include "muster/testing/raw_tcp.h"

namespace muster::serving {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RawTcp;
using ::testing::StartsWith;

/// A server of one node, and the node.
class TestNode {
 public:
  TestNode(int number, HttpServer::Handle handle)
      : server_({.address = "127.0.0.1", .io_threads = 1}, std::move(handle),
                [](const HttpRequest&) { return std::optional<std::string>("queue"); }),
        node_(std::make_shared<Node>(number, loopback_address(server_.port()))) {}

  const std::shared_ptr<Node>& node() const { return node_; }

 private:
  HttpServer server_;
  std::shared_ptr<Node> node_;
};

/// A node where nothing listens.
std::shared_ptr<Node> gone_node(int number) {
  const testing::RawTcpServer server;
  return std::make_shared<Node>(number, loopback_address(server.port()));
}

HttpServer::Handle says(const std::string& text) {
  return [text](const HttpRequest& request) { return HttpResponse{.body = text + request.body}; };
}

class FrontServerTest : public ::testing::Test {
 protected:
  FrontServer& open(FrontOptions options = {}) {
    options.http.address = "127.0.0.1";
    options.http.io_threads = 2;
    front_.emplace(std::move(options));
    front_->open();
    return *front_;
  }
  RawTcp connect() const { return RawTcp(fmt::format("127.0.0.1:{}", front_->port())); }
  std::string ask(const std::string& method, const std::string& path, const std::string& body = "",
                  const std::string& headers = "") const {
    RawTcp client = connect();
    client.send(
        fmt::format("{} {} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{}Content-Length: "
                    "{}\r\n\r\n{}",
                    method, path, headers, body.size(), body));
    return client.read_to_end();
  }
  std::string predict(const std::string& body) const {
    return ask("POST", "/v1/models/m:predict", body);
  }

  std::optional<FrontServer> front_{};
};

TEST_F(FrontServerTest, PassesRequestsAndAnswersOnAsTheyAre) {
  HttpRequest seen;
  const TestNode node(0, [&](const HttpRequest& request) {
    seen = request;
    return HttpResponse{.status = 404,
                        .content_type = "text/x",
                        .body = "no " + request.body,
                        .headers = {{"X-Muster-Version", "3"}}};
  });
  open().add(node.node());
  const std::string answer = ask("POST", "/v1/models/m%20n:predict?a=b", "body",
                                 "Authorization: Bearer t\r\nX-Muster-Key: k\r\n");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 404 Not Found\r\nContent-Type: text/x\r\n"),
                            HasSubstr("X-Muster-Version: 3\r\n"), EndsWith("\r\n\r\nno body")));
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.target, "/v1/models/m%20n:predict?a=b");
  EXPECT_EQ(seen.header("Authorization"), "Bearer t");
  EXPECT_EQ(seen.header("X-Muster-Key"), "k");
  EXPECT_EQ(seen.header("Host"), "h");
  EXPECT_TRUE(seen.is_from_this_host);
  // Who says to be from elsewhere has the permissions of elsewhere.
  ask("GET", "/v1/models/m", "", "X-Muster-Remote: 1\r\n");
  EXPECT_FALSE(seen.is_from_this_host);
}

TEST_F(FrontServerTest, PassesLargeBodiesOnBothWays) {
  const TestNode node(0, says("same: "));
  open().add(node.node());
  const std::string body(1 << 20, 'x');
  EXPECT_THAT(predict(body), EndsWith("\r\n\r\nsame: " + body));
}

TEST_F(FrontServerTest, AsksAnotherNodeWhereOneIsGone) {
  const TestNode good(1, says("good "));
  FrontServer& front = open();
  front.add(gone_node(0));
  front.add(good.node());
  for (int i = 0; i < 8; ++i) EXPECT_THAT(predict("x"), EndsWith("good x"));
  EXPECT_THAT(front.counts().page(),
              HasSubstr("muster_front_retries_total{reason=\"connection lost\"}"));
}

TEST_F(FrontServerTest, RequestsThatNoNodeHasSeenWaitForOne) {
  FrontServer& front = open();
  front.add(gone_node(0));
  RawTcp client = connect();
  client.send("DELETE /v1/projects/p/models/m HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(testing::eventually([&] { return front.waiting() == 1; }));
  const TestNode good(1, says("good "));
  front.add(good.node());
  EXPECT_THAT(client.read_to_end(), EndsWith("good "));
}

TEST_F(FrontServerTest, AsksAnotherNodeWhereOneFails) {
  const TestNode bad(0,
                     [](const HttpRequest&) { return HttpResponse{.status = 500, .body = "bad"}; });
  const TestNode good(1, says("good "));
  FrontServer& front = open();
  front.add(bad.node());
  EXPECT_THAT(predict("x"), EndsWith("bad"));  // The only one there is.
  EXPECT_EQ(bad.node()->strikes, 0);
  front.add(good.node());
  for (int i = 0; i < 8; ++i) {
    // However long a busy machine has let either take.
    bad.node()->latency = 0;
    good.node()->latency = 0;
    EXPECT_THAT(predict("x"), EndsWith("good x"));
  }
  EXPECT_GT(bad.node()->strikes, 0);
  EXPECT_EQ(good.node()->strikes, 0);
}

TEST_F(FrontServerTest, SendsWhatMayHaveBeenDoneToNoOther) {
  testing::RawTcpServer closes;
  std::jthread closing([&] {
    RawTcp connection = closes.accept();
    connection.read(10);  // It has begun with the request.
  });
  const TestNode good(1, says("good "));
  FrontServer& front = open();
  front.add(std::make_shared<Node>(0, loopback_address(closes.port())));
  std::jthread asking([&] {
    EXPECT_THAT(ask("DELETE", "/v1/projects/p/models/m"),
                AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("node 0 was lost with this request"),
                      HasSubstr("may have been carried out")));
  });
  closing.join();
  front.add(good.node());
  asking.join();
}

TEST_F(FrontServerTest, RequestsWaitForANode) {
  FrontServer& front = open();
  RawTcp client = connect();
  client.send(
      "POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
      "Content-Length: 1\r\n\r\nx");
  ASSERT_TRUE(testing::eventually([&] { return front.waiting() == 1; }));
  front.set_reason("node 0 loads models");
  EXPECT_THAT(ask("GET", "/readyz"),
              AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("node 0 loads models\n")));
  EXPECT_THAT(ask("GET", "/healthz"), EndsWith("ok\n"));
  const TestNode node(0, says("late "));
  front.add(node.node());
  EXPECT_THAT(client.read_to_end(), EndsWith("late x"));
  EXPECT_EQ(front.waiting(), 0U);
  EXPECT_THAT(ask("GET", "/readyz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(FrontServerTest, RefusesWithTheReasonWhereNoNodeComesInTime) {
  open({.timeout = milliseconds(1), .most_waiting = 1}).set_reason("node 7 was killed by SIGKILL");
  EXPECT_THAT(predict("x"),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("node 7 was killed by SIGKILL")));
}

TEST_F(FrontServerTest, WhatAnAbandonedNodeHasIsAnsweredByAnother) {
  Semaphore held(0);
  Semaphore go(0);
  const TestNode stuck(0, [&](const HttpRequest&) {
    held.release();
    go.acquire();
    return HttpResponse{.body = "too late"};
  });
  const TestNode good(1, says("good "));
  FrontServer& front = open();
  front.add(stuck.node());
  RawTcp client = connect();
  client.send(
      "POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
      "Content-Length: 1\r\n\r\nx");
  held.acquire();
  front.add(good.node());
  front.abandon(*stuck.node());
  EXPECT_THAT(client.read_to_end(), EndsWith("good x"));
  EXPECT_EQ(stuck.node()->in_flight, 0U);
  go.release(1);
}

TEST_F(FrontServerTest, DrainsByAnsweringWhatIsInFlight) {
  Semaphore held(0);
  Semaphore go(0);
  const TestNode node(0, [&](const HttpRequest& request) {
    held.release();
    go.acquire();
    return HttpResponse{.body = "done " + request.body};
  });
  FrontServer& front = open();
  front.add(node.node());
  RawTcp client = connect();
  client.send("POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
  held.acquire();
  EXPECT_FALSE(front.drain(Deadline::after(milliseconds(1))));
  go.release();
  EXPECT_TRUE(front.drain(Deadline::never()));
  EXPECT_THAT(client.read_to_end(), EndsWith("done x"));
}

TEST_F(FrontServerTest, RefusesWhatIsLeftWhenItEnds) {
  FrontServer& front = open();
  RawTcp client = connect();
  client.send("POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
  ASSERT_TRUE(testing::eventually([&] { return front.waiting() == 1; }));
  front_.reset();
  EXPECT_THAT(client.read_to_end(), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("is stopping")));
}

TEST_F(FrontServerTest, ChangesNotOneNodeOfSeveral) {
  const TestNode node(0, says("changed "));
  open().add(node.node());
  EXPECT_THAT(ask("POST", "/v2/repository/models/m/unload", "{}"),
              AllOf(StartsWith("HTTP/1.1 501 "), Not(HasSubstr("changed"))));
  EXPECT_THAT(ask("POST", "/v2/repository/index", "{}"), EndsWith("changed {}"));
}

TEST_F(FrontServerTest, AsksANodeWhetherItComputes) {
  std::atomic<int> predictions{0};
  const TestNode node(0, [&](const HttpRequest& request) {
    if (request.target == "/readyz") return HttpResponse{.body = "ok"};
    ++predictions;
    return HttpResponse{.body = "[1]"};
  });
  FrontServer& front = open();
  front.add(node.node());
  const auto probe = [&] {
    Semaphore answered(0);
    int status = -1;
    front.probe(node.node(), Deadline::after(std::chrono::minutes(1)),
                [&](const FrontServer::Reply& reply) {
                  status = reply.status;
                  answered.release();
                });
    answered.acquire();
    return status;
  };
  EXPECT_EQ(probe(), 200);
  EXPECT_EQ(predictions, 0);
  predict("x");
  // The prediction that it answered is asked again.
  EXPECT_EQ(probe(), 200);
  EXPECT_EQ(predictions, 2);
}

TEST_F(FrontServerTest, ShowsMetricsToThoseWhoMayReadThem) {
  FrontOptions options;
  options.access = Access::from_text("secret-secret-secret predict\n");
  options.metrics = [](const std::string& path) { return "joined of " + path + "\n"; };
  open(std::move(options));
  EXPECT_THAT(ask("GET", "/metrics"), StartsWith("HTTP/1.1 401 "));
  const std::string token = "Authorization: Bearer secret-secret-secret\r\n";
  EXPECT_THAT(
      ask("GET", "/metrics", "", token),
      AllOf(HasSubstr("muster_front_requests_waiting 0\n"), EndsWith("joined of /metrics\n")));
  EXPECT_THAT(ask("GET", "/monitoring/prometheus/metrics", "", token),
              EndsWith("\r\n\r\njoined of /monitoring/prometheus/metrics\n"));
}

TEST_F(FrontServerTest, ShowsNodesAndTheirHistoryToThoseWhoMayReadThem) {
  FrontOptions options;
  options.access = Access::from_text("secret-secret-secret predict\n");
  options.nodes = [](std::chrono::system_clock::time_point since) {
    return fmt::format("since {}", since.time_since_epoch() / milliseconds(1));
  };
  open(std::move(options));
  EXPECT_THAT(ask("GET", "/nodes"), StartsWith("HTTP/1.1 401 "));
  const std::string token = "Authorization: Bearer secret-secret-secret\r\n";
  EXPECT_THAT(ask("GET", "/nodes", "", token), EndsWith("\r\n\r\nsince 0"));
  EXPECT_THAT(ask("GET", "/nodes?since=12.5", "", token), EndsWith("\r\n\r\nsince 12500"));
  for (const char* wrong : {"", "x", "-1", "1e99", "nan"}) {
    EXPECT_THAT(ask("GET", std::string("/nodes?since=") + wrong, "", token),
                StartsWith("HTTP/1.1 400 "))
        << wrong;
  }
  EXPECT_EQ(front_->counts().latencies().count(), 0U);  // The front's own pages are no requests.
}

}  // namespace
}  // namespace muster::serving
