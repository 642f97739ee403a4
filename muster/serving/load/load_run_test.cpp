#include "muster/serving/load/load_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/error.h"
#include "muster/base/semaphore.h"
#include "muster/serving/core/service_fake.h"
#include "muster/serving/load/load_report.h"
#include "muster/serving/load/load_requests.h"
#include "muster/serving/load/request_schedule_internal.h"
#include "muster/serving/protocols/grpc_server.h"
#include "muster/serving/protocols/rest_api.h"
#include "muster/testing/http_test_server.h"
#include "muster/testing/message_of.h"
#include "muster/testing/raw_tcp.h"

namespace muster::serving {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::chrono::minutes kPatience{1};

/// A server of the model "m", whose requests it counts.
class CountingServer {
 public:
  ServerAddress address(bool over_grpc) const {
    return resolve_server(fmt::format("127.0.0.1:{}", over_grpc ? grpc_.port() : http_.port()));
  }
  GrpcServer& grpc() { return grpc_; }
  HttpServer& http() { return http_; }
  /// Requests to the model that were answered, by all of its versions.
  std::uint64_t answered() {
    const std::string page = api_.handle({.method = "GET", .target = "/metrics"}).body;
    std::uint64_t sum = 0;
    constexpr std::string_view kName = "\nmuster_requests_total{";
    for (auto at = page.find(kName); at != page.npos; at = page.find(kName, at + 1)) {
      sum += std::stoull(page.substr(page.find("} ", at) + 2));
    }
    return sum;
  }

 private:
  FakeService fake_{};
  RestApi api_{fake_.service(), {}};
  HttpServer http_{{.address = "127.0.0.1"},
                   [this](HttpRequest one) { return api_.handle(std::move(one)); },
                   RestApi::queue_of};
  GrpcServer grpc_{fake_.service(), {.address = "127.0.0.1"}};
};

LoadTarget target(LoadProtocol protocol, double weight = 1, const std::string& version = "") {
  const ModelAddress model{.name = "m", .version = version};
  const graph::SignatureDef signature{
      .inputs = {{"x", {.dtype = graph::DataType::kFloat, .shape = {-1}}}}};
  return {.model = "m" + version,
          .weight = weight,
          .requests = generated_requests(protocol, model, signature, {})};
}

LoadMeasurements load(const LoadPlan& plan, const std::vector<LoadTarget>& targets) {
  std::atomic<std::uint64_t> answered = 0;
  const std::stop_source never;
  return run_load(plan, targets, never.get_token(), answered);
}

TEST(RequestSchedule, IsTheSameForEveryNumberOfThreads) {
  const auto all = [](std::size_t threads) {
    const LoadPlan plan{.rate = 1000, .concurrency = 8, .threads = threads, .seed = 3};
    std::set<std::pair<std::uint64_t, std::int64_t>> out;
    for (std::size_t i = 0; i < threads; ++i) {
      RequestSchedule schedule(plan, i);
      std::deque<DueRequest> due;
      schedule.take(1'000'000'000, 0, due);
      for (const DueRequest& one : due) out.emplace(one.index, one.due);
    }
    return out;
  };
  const auto alone = all(1);
  EXPECT_GT(alone.size(), 800U);
  EXPECT_EQ(all(3), alone);
  EXPECT_EQ(all(8), alone);
}

TEST(RequestSchedule, OfAClosedLoopKeepsSoManyOutstanding) {
  const LoadPlan plan{.concurrency = 5, .threads = 2, .most_requests = 8};
  RequestSchedule first(plan, 0);
  RequestSchedule second(plan, 1);
  std::deque<DueRequest> due;
  first.take(10, 0, due);
  EXPECT_EQ(due.size(), 3U);
  second.take(10, 0, due);
  EXPECT_EQ(due.size(), 5U);
  first.take(20, 3, due);
  EXPECT_EQ(due.size(), 5U);
  first.take(30, 0, due);
  second.take(30, 0, due);
  // Those with the numbers 0 to 7, and no more.
  EXPECT_EQ(due.size(), 8U);
  EXPECT_FALSE(first.has_more(40) || second.has_more(40));
}

TEST(LoadRun, CountsWhatTheServerCountsOverEveryProtocol) {
  for (const LoadProtocol protocol :
       {LoadProtocol::kRest, LoadProtocol::kGrpc, LoadProtocol::kOipRest, LoadProtocol::kOipGrpc}) {
    for (const std::optional<double> rate :
         {std::optional<double>(), std::optional<double>(5000)}) {
      CountingServer server;
      const auto measured = load({.server = server.address(is_grpc(protocol)),
                                  .over_grpc = is_grpc(protocol),
                                  .rate = rate,
                                  .concurrency = 40,
                                  .threads = 3,
                                  .duration = kPatience,
                                  .deadline = kPatience,
                                  .most_requests = 500},
                                 {target(protocol)});
      EXPECT_EQ(measured.total().requests, 500U) << name_of(protocol);
      EXPECT_EQ(measured.total().failed, 0U);
      EXPECT_EQ(measured.total().latency.count(), 500U);
      EXPECT_EQ(measured.sent, 500U);
      EXPECT_EQ(measured.answered, 500U);
      EXPECT_GT(measured.seconds, 0);
      EXPECT_EQ(server.answered(), 500U);
    }
  }
}

TEST(LoadRun, AsksSeveralModelsByTheirWeights) {
  CountingServer server;
  const auto measured = load({.server = server.address(true),
                              .over_grpc = true,
                              .duration = kPatience,
                              .deadline = kPatience,
                              .most_requests = 2000},
                             {target(LoadProtocol::kGrpc, 1, "1"), target(LoadProtocol::kGrpc, 3)});
  ASSERT_EQ(measured.models.size(), 2U);
  EXPECT_NEAR(static_cast<double>(measured.models[0].requests), 500, 80);
  EXPECT_EQ(measured.models[0].requests + measured.models[1].requests, 2000U);
}

TEST(LoadRun, DoesNotMeasureTheWarmUp) {
  CountingServer server;
  const auto measured = load({.server = server.address(false),
                              .rate = 1000,
                              .arrivals = ArrivalPattern::kConstant,
                              .warm_up = milliseconds(100),
                              .duration = milliseconds(100),
                              .deadline = kPatience},
                             {target(LoadProtocol::kRest)});
  EXPECT_EQ(measured.sent, 200U);
  EXPECT_EQ(measured.total().requests, 100U);
  EXPECT_EQ(measured.seconds, 0.1);
  EXPECT_EQ(server.answered(), 200U);
}

TEST(LoadRun, CountsErrorsByKindWithTheFirstMessage) {
  CountingServer server;
  LoadTarget wrong = target(LoadProtocol::kGrpc);
  wrong.requests = {encoded_request(LoadProtocol::kGrpc, {.name = "nobody"}, {}, {})};
  const auto measured = load({.server = server.address(true),
                              .over_grpc = true,
                              .duration = kPatience,
                              .deadline = kPatience,
                              .most_requests = 30},
                             {wrong});
  const auto total = measured.total();
  EXPECT_EQ(total.failed, 30U);
  ASSERT_EQ(total.errors.size(), 1U);
  EXPECT_EQ(total.errors.begin()->first, "NOT_FOUND");
  EXPECT_EQ(total.errors.begin()->second.count, 30U);
  EXPECT_THAT(total.errors.begin()->second.message, HasSubstr("nobody"));
  EXPECT_EQ(total.latency.count(), 0U);
}

TEST(LoadRun, RequestsWithoutAnAnswerByTheirDeadlineAreErrorsAndCountInTheLatency) {
  for (const bool over_grpc : {false, true}) {
    // The kernel takes the connections; no program answers.
    const testing::RawTcpServer silent;
    const auto measured = load({.server = resolve_server(silent.address()),
                                .over_grpc = over_grpc,
                                .rate = 1000,
                                .concurrency = 4,
                                .duration = milliseconds(50),
                                .deadline = milliseconds(20),
                                .seed = 1},
                               {target(LoadProtocol::kRest)});
    const auto total = measured.total();
    EXPECT_GT(total.requests, 20U);
    EXPECT_EQ(total.failed, total.requests);
    ASSERT_EQ(total.errors.size(), 1U);
    EXPECT_EQ(total.errors.begin()->first, "deadline exceeded");
    EXPECT_EQ(total.latency.quantile(0.5), 20'000'000);
    EXPECT_EQ(measured.unfinished, 0U);
  }
}

TEST(LoadRun, OpensConnectionsAgainThatTheServerCloses) {
  std::atomic<int> calls = 0;
  testing::HttpTestServer server([&](const testing::HttpCall&) {
    const int call = ++calls;
    testing::CannedResponse answer{.body = "{}"};
    answer.hang_up = call % 10 == 0;
    return answer;
  });
  const auto measured = load({.server = resolve_server(server.url().substr(7)),
                              .concurrency = 2,
                              .duration = kPatience,
                              .deadline = kPatience,
                              .most_requests = 100},
                             {target(LoadProtocol::kRest)});
  EXPECT_EQ(measured.total().requests, 100U);
  EXPECT_EQ(measured.total().failed, 10U);
  EXPECT_EQ(measured.total().errors.at("connection closed").count, 10U);
}

TEST(LoadRun, LosesNoRequestWhenAGrpcServerSendsItsClientsAway) {
  CountingServer server;
  GrpcServer& grpc = server.grpc();
  std::jthread drain;
  std::atomic<std::uint64_t> answered = 0;
  std::stop_source stop;
  LoadMeasurements measured;
  {
    std::jthread loading([&] {
      measured = run_load({.server = server.address(true),
                           .over_grpc = true,
                           .duration = kPatience,
                           .deadline = kPatience},
                          {target(LoadProtocol::kGrpc)}, stop.get_token(), answered);
    });
    while (answered < 100) std::this_thread::yield();
    grpc.drain(Deadline::after(kPatience));
    stop.request_stop();
  }
  // Those that the server had taken are answered; then the port is closed.
  for (const auto& [kind, error] : measured.total().errors) EXPECT_EQ(kind, "connection failed");
  EXPECT_GE(measured.total().latency.count(), 100U);
}

TEST(LoadRun, StopsWhenItIsAskedToWithWhatWasMeasured) {
  CountingServer server;
  std::atomic<std::uint64_t> answered = 0;
  std::stop_source stop;
  LoadMeasurements measured;
  {
    std::jthread loading([&] {
      measured = run_load({.server = server.address(false),
                           .concurrency = 8,
                           .threads = 2,
                           .duration = std::chrono::hours(1)},
                          {target(LoadProtocol::kRest)}, stop.get_token(), answered);
    });
    while (answered < 50) std::this_thread::yield();
    stop.request_stop();
  }
  EXPECT_TRUE(measured.was_stopped);
  EXPECT_GE(measured.total().requests, 50U);
  EXPECT_LE(measured.unfinished, 8U);
  EXPECT_GT(measured.seconds, 0);
  EXPECT_LT(measured.seconds, 3600);
}

TEST(LoadRun, SaysThatNoServerAnswers) {
  std::string address;
  {
    const testing::RawTcpServer gone;
    address = gone.address();
  }
  EXPECT_THROW(load({.server = resolve_server(address)}, {target(LoadProtocol::kRest)}),
               Unavailable);
  EXPECT_THROW(resolve_server("localhost"), InvalidArgument);
  EXPECT_THROW(resolve_server(":80"), InvalidArgument);
}

TEST(LoadRun, RefusesPlansThatCannotBe) {
  const LoadPlan good{.server = {.text = "127.0.0.1:1"}};
  const std::vector<LoadTarget> one{target(LoadProtocol::kRest)};
  const auto refuses = [&](auto change) {
    LoadPlan plan = good;
    change(plan);
    EXPECT_THROW(load(plan, one), InvalidArgument);
  };
  refuses([](LoadPlan& plan) { plan.rate = 0; });
  refuses([](LoadPlan& plan) { plan.rate = 2 * kMostRate; });
  refuses([](LoadPlan& plan) { plan.concurrency = 0; });
  refuses([](LoadPlan& plan) { plan.concurrency = 1 << 20; });
  refuses([](LoadPlan& plan) { plan.threads = 17; });
  refuses([](LoadPlan& plan) { plan.duration = milliseconds(0); });
  EXPECT_THROW(load(good, {}), InvalidArgument);
  EXPECT_THROW(load(good, {{.model = "m"}}), InvalidArgument);
}

LoadReport report_of(std::optional<double> rate) {
  LoadMeasurements measured{.sent = 3, .answered = 2, .seconds = 2};
  measured.models.resize(2);
  measured.models[0].requests = 2;
  measured.models[0].latency.record(5'000'000);
  measured.models[0].latency.record(7'000'000);
  measured.models[1].requests = 1;
  measured.models[1].failed = 1;
  measured.models[1].errors["HTTP 503"] = {.count = 1, .message = "busy\x1b[2J"};
  return {.protocol = "rest",
          .server = "host:1",
          .models = {"a", "b"},
          .steps = {{.rate = rate, .concurrency = 4, .measured = measured}},
          .bounds = KneeBounds{}};
}

TEST(LoadReport, ShowsRowsOfModelsAndErrors) {
  const std::string open = load_table(report_of(1.5));
  EXPECT_THAT(open, HasSubstr("latencies count from the time at which a request was due"));
  EXPECT_THAT(open, HasSubstr("         1.5          3         1.0     33.3 %     5.000"));
  EXPECT_THAT(open, HasSubstr("           1  HTTP 503: busy\\x1b[2J"));
  EXPECT_THAT(load_table(report_of(std::nullopt)), HasSubstr("closed loop: "));
}

TEST(LoadReport, IsOneJsonObject) {
  const auto json = nlohmann::json::parse(load_json(report_of(1.5)));
  EXPECT_EQ(json["loop"], "open");
  const auto& step = json["steps"][0];
  EXPECT_EQ(step["requests"], 3);
  EXPECT_EQ(step["failed"], 1);
  EXPECT_EQ(step["answers_per_second"], 1.0);
  EXPECT_EQ(step["latency_ms"]["max"], 7.0);
  EXPECT_EQ(step["errors"][0]["kind"], "HTTP 503");
  EXPECT_EQ(step["models"]["a"]["requests"], 2);
  EXPECT_EQ(step["within_bounds"], false);
  EXPECT_EQ(nlohmann::json::parse(load_json(report_of(std::nullopt)))["loop"], "closed");
}

TEST(RequestSchedule, GivesSoManyAtOnceAndNoMore) {
  RequestSchedule schedule({.rate = kMostRate, .arrivals = ArrivalPattern::kConstant}, 0);
  constexpr std::int64_t kNow = 1'000'000'000;
  std::deque<DueRequest> due;
  schedule.take(kNow, 0, due);
  EXPECT_EQ(due.size(), RequestSchedule::kMostTaken);
  // The others are due already.
  EXPECT_LE(schedule.next(kNow), kNow);
}

TEST(LoadRun, SendsOnOverGrpcWhenAllRequestsOfAConnectionAreTooLate) {
  // The kernel takes the connection; no program answers.
  const testing::RawTcpServer silent;
  const auto measured = load({.server = resolve_server(silent.address()),
                              .over_grpc = true,
                              .concurrency = 100,
                              .connections = 1,
                              .duration = milliseconds(800),
                              .deadline = milliseconds(20)},
                             {target(LoadProtocol::kGrpc)});
  // As many as one connection has in flight, and again when their time is over.
  EXPECT_GT(measured.sent, 100U);
}

TEST(LoadRun, StopsWhileItConnects) {
  std::string address;
  {
    const testing::RawTcpServer gone;
    address = gone.address();
  }
  std::atomic<std::uint64_t> answered = 0;
  std::stop_source stop;
  stop.request_stop();
  const auto measured = run_load({.server = resolve_server(address)}, {target(LoadProtocol::kRest)},
                                 stop.get_token(), answered);
  EXPECT_TRUE(measured.was_stopped);
  EXPECT_EQ(measured.sent, 0U);
}

TEST(LoadRun, DoesNotStormAServerThatEndsItsConnections) {
  testing::RawTcpServer server;
  std::atomic<std::uint64_t> answered = 0;
  std::stop_source stop;
  LoadMeasurements measured;
  const auto begin = std::chrono::steady_clock::now();
  {
    std::jthread loading([&] {
      measured = run_load({.server = resolve_server(server.address()),
                           .concurrency = 1,
                           .duration = std::chrono::hours(1),
                           .deadline = kPatience},
                          {target(LoadProtocol::kRest)}, stop.get_token(), answered);
    });
    for (int i = 0; i < 5; ++i) server.accept();
    // Each was opened 50 ms after the one before it, or later.
    EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(200));
    stop.request_stop();
  }
  EXPECT_TRUE(measured.was_stopped);
}

}  // namespace
}  // namespace muster::serving
