#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "muster/base/semaphore.h"
#include "muster/serving/front/kept_node_internal.h"
#include "muster/testing/eventually.h"
#include "muster/testing/raw_tcp.h"

namespace muster::serving {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::EndsWith;
using testing::eventually;

/// A process that has said its port, and takes no processor time.
class IdleProcess final : public NodeProcess {
 public:
  IdleProcess(std::uint16_t port, std::vector<int>& signals) : signals_(signals) {
    EXPECT_EQ(::pipe2(pipe_.data(), O_NONBLOCK | O_CLOEXEC), 0);
    const std::string line = fmt::format("ports rest={} grpc=0\n", port);
    EXPECT_EQ(::write(pipe_[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  ~IdleProcess() override {
    for (const int end : pipe_) ::close(end);
  }
  IdleProcess(const IdleProcess&) = delete;
  IdleProcess& operator=(const IdleProcess&) = delete;

  pid_t process() const override { return -1; }  // No process has this number.
  int output() const override { return pipe_[0]; }
  void send(int signal) override { signals_.push_back(signal); }
  std::optional<std::string> ended() override { return std::nullopt; }

 private:
  std::vector<int>& signals_;
  std::array<int, 2> pipe_{-1, -1};
};

/// A front with one node, which answers all requests but the question whether it is ready.
class KeptNodeTest : public ::testing::Test {
 protected:
  KeptNodeTest() {
    FrontOptions options;
    options.http.address = "127.0.0.1";
    options.http.io_threads = 1;
    front_.emplace(std::move(options));
    front_->open();
    node_.emplace(0, std::make_unique<IdleProcess>(server_.port(), signals_),
                  NodeKeeperOptions{.probe_interval = milliseconds(0),
                                    .probe_timeout = milliseconds(0),
                                    .hang_timeout = milliseconds(0),
                                    .compute_timeout = milliseconds(600'000)});
    node_->read(*front_);
    node_->look(*front_, /*has_others=*/false);
    is_asked_.acquire();
  }
  ~KeptNodeTest() override { may_answer_.release(); }

  HttpResponse answer(const HttpRequest& request) {
    if (request.target != "/readyz") return {.body = "an answer"};
    is_asked_.release();
    may_answer_.acquire();
    may_answer_.release();
    return {};
  }
  std::string ask() const {
    testing::RawTcp client(fmt::format("127.0.0.1:{}", front_->port()));
    client.send("GET /v1/models/m HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    return client.read_to_end();
  }

  Semaphore is_asked_{0};
  Semaphore may_answer_{0};
  std::vector<int> signals_{};
  HttpServer server_{{.address = "127.0.0.1", .io_threads = 1},
                     [this](const HttpRequest& request) { return answer(request); },
                     [](const HttpRequest&) { return std::optional<std::string>("waits"); }};
  std::optional<FrontServer> front_{};
  std::optional<KeptNode> node_{};
};

TEST_F(KeptNodeTest, IsTakenOutAndKilledWhereItHangsAfterAnAnswerToAnotherRequest) {
  EXPECT_THAT(ask(), EndsWith("an answer"));
  EXPECT_TRUE(eventually([&] {
    node_->look(*front_, /*has_others=*/false);
    return node_->killed_for().has_value();
  }));
  EXPECT_EQ(node_->state(), KeptNode::State::kOut);
  EXPECT_THAT(signals_, Contains(SIGKILL));
}

TEST_F(KeptNodeTest, StaysWhereItAnswersOtherRequests) {
  // An answer that is later than every look.
  const auto later = KeptNode::Clock::now() + std::chrono::hours(1);
  node_->node()->last_answer = later.time_since_epoch().count();
  node_->look(*front_, /*has_others=*/false);
  EXPECT_EQ(node_->state(), KeptNode::State::kUp);
  EXPECT_FALSE(node_->killed_for());
}

}  // namespace
}  // namespace muster::serving
