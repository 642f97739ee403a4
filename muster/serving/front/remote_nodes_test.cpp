#include "muster/serving/front/remote_nodes.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "muster/base/error.h"
#include "muster/serving/front/node_names.h"
#include "muster/testing/eventually.h"
#include "muster/testing/raw_tcp.h"

namespace muster::serving {
namespace {

using std::chrono::milliseconds;
using ::testing::EndsWith;
using testing::eventually;
using ::testing::HasSubstr;

/// A server that another program runs: answers with its name, and may say that it is not ready.
class Elsewhere {
 public:
  explicit Elsewhere(const std::string& name)
      : server_(
            {.address = "127.0.0.1", .io_threads = 1},
            [this, name](const HttpRequest& request) {
              if (request.target == "/readyz" && !is_ready) return HttpResponse{.status = 503};
              return HttpResponse{.body = "from " + name};
            },
            [](const HttpRequest&) { return std::optional<std::string>(); }) {}

  std::string address() const { return fmt::format("127.0.0.1:{}", server_.port()); }
  std::atomic<bool> is_ready{true};

 private:
  HttpServer server_;
};

class RemoteNodesTest : public ::testing::Test {
 protected:
  RemoteNodesTest() {
    FrontOptions options;
    options.http.address = "127.0.0.1";
    options.http.io_threads = 2;
    options.timeout = milliseconds(60'000);
    front_.emplace(std::move(options));
    front_->open();
  }

  void open(const std::vector<std::string>& names) {
    nodes_.emplace(RemoteNodesOptions{.names = names,
                                      .probe_interval = milliseconds(5),
                                      .probe_timeout = milliseconds(60'000)},
                   *front_);
    nodes_->start();
  }
  std::string ask() const {
    testing::RawTcp client(fmt::format("127.0.0.1:{}", front_->port()));
    client.send(
        "POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
        "Content-Length: 1\r\n\r\nx");
    return client.read_to_end();
  }
  bool has_up(int count) {
    return eventually([&] {
      return front_->counts().page().find(fmt::format("muster_front_nodes{{state=\"up\"}} {}\n",
                                                      count)) != std::string::npos;
    });
  }

  // The nodes use the front, and end first.
  std::optional<FrontServer> front_{};
  std::optional<RemoteNodes> nodes_{};
};

TEST_F(RemoteNodesTest, KeepsRequestsFromNodesThatAreNotReadyOrDoNotAnswer) {
  Elsewhere first("first");
  const Elsewhere second("second");
  const testing::RawTcpServer silent;  // Takes connections and never answers.
  open({first.address(), second.address(), silent.address()});
  ASSERT_TRUE(has_up(2));
  first.is_ready = false;
  ASSERT_TRUE(has_up(1));
  for (int i = 0; i < 8; ++i) EXPECT_THAT(ask(), EndsWith("from second"));
  first.is_ready = true;
  ASSERT_TRUE(has_up(2));
  EXPECT_THAT(front_->counts().page(),
              HasSubstr("muster_front_ejections_total{reason=\"is not ready\"} 1\n"));
  nodes_->stop(Deadline::never());
  EXPECT_EQ(front_->waiting(), 0U);
}

TEST_F(RemoteNodesTest, LooksNamesUp) {
  const Elsewhere here("here");
  open({fmt::format("localhost:{}", here.address().substr(here.address().find(':') + 1))});
  ASSERT_TRUE(has_up(1));
  EXPECT_THAT(ask(), EndsWith("from here"));
}

TEST_F(RemoteNodesTest, SaysWhatNamesNoNode) {
  for (const char* wrong : {"", "host", "host:", ":8501", "host:0", "host:70000", "host:80x"}) {
    EXPECT_THROW(RemoteNodes({.names = {wrong}}, *front_), InvalidArgument) << wrong;
  }
  EXPECT_EQ(node_addresses("[::1]:8501").at(0).text, "[::1]:8501");
  EXPECT_EQ(node_addresses("127.0.0.1:8501").at(0).text, "127.0.0.1:8501");
  const testing::RawTcpServer silent;
  RemoteNodes none({.names = {silent.address()}, .start_timeout = milliseconds(1)}, *front_);
  EXPECT_THROW(none.start(), DeadlineExceeded);
}

}  // namespace
}  // namespace muster::serving
