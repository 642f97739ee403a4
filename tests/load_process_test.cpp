// `muster load` and `muster serve` as processes: both count the same, and a server that stalls
// shows.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "muster/base/file_system.h"
#include "muster/testing/eventually.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::operator+;
using testing::Outcome;
using testing::Words;

constexpr const char* kModel = "half_plus_two";

/// A server of half_plus_two that runs beside the test.
class HalfPlusTwo {
 public:
  HalfPlusTwo()
      : program_(MUSTER_PROGRAM, {"serve", EXAMPLES_DIR "/half_plus_two", "--address", "127.0.0.1",
                                  "--port", "auto", "--rest-api-port", "auto"}) {
    const std::regex grpc("gRPC ModelServer at 127.0.0.1:([0-9]+)");
    const std::regex rest("REST API at:127.0.0.1:([0-9]+)");
    EXPECT_TRUE(testing::eventually([&] {
      const std::string text = program_.err();
      std::smatch match;
      if (std::regex_search(text, match, grpc)) grpc_ = "127.0.0.1:" + match[1].str();
      if (std::regex_search(text, match, rest)) rest_ = "127.0.0.1:" + match[1].str();
      return !rest_.empty() || program_.ended();
    })) << program_.err();
  }

  const std::string& address(const std::string& protocol) const {
    return protocol.ends_with("grpc") ? grpc_ : rest_;
  }
  void send(int signal) const { program_.send(signal); }
  /// Requests that the server has answered.
  std::uint64_t answered() const {
    const std::string page =
        testing::run_program("/usr/bin/curl", {"-sS", "--noproxy", "*", "--max-time", "60",
                                               "http://" + rest_ + "/metrics"})
            .out;
    std::uint64_t sum = 0;
    constexpr std::string_view kName = "\nmuster_requests_total{";
    for (auto at = page.find(kName); at != page.npos; at = page.find(kName, at + 1)) {
      sum += std::stoull(page.substr(page.find("} ", at) + 2));
    }
    return sum;
  }

 private:
  testing::RunningProgram program_;
  std::string grpc_;
  std::string rest_;
};

Words load_words(const HalfPlusTwo& server, const std::string& protocol, const Words& more) {
  return Words{"load",       kModel,   "--server", server.address(protocol),
               "--protocol", protocol, "--json",   "--warm-up-seconds",
               "0"} +
         more;
}

json only_step(const Outcome& outcome) {
  const json report = json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(report.is_object()) << outcome.out << outcome.err;
  if (!report.is_object()) return json::object();
  EXPECT_EQ(report["steps"].size(), 1U);
  return report["steps"][0];
}

TEST(Load, CountsWhatTheServerCountsOverEveryProtocol) {
  const HalfPlusTwo server;
  std::uint64_t before = server.answered();
  for (const char* const protocol : {"rest", "grpc", "oip", "oip-grpc"}) {
    for (const Words& loop : {Words{"--concurrency", "8"}, Words{"--rate", "500"}}) {
      const Outcome outcome = testing::run_program(
          MUSTER_PROGRAM,
          load_words(server, protocol, loop + Words{"--requests", "200", "--seconds", "60"}));
      EXPECT_EQ(outcome.status, 0) << outcome.err;
      const json step = only_step(outcome);
      EXPECT_EQ(step["requests"], 200) << protocol;
      EXPECT_EQ(step["failed"], 0) << outcome.out;
      EXPECT_EQ(step["sent"], 200);
      EXPECT_EQ(step["models"][kModel]["requests"], 200);
      // The model was asked once before the load.
      const std::uint64_t after = server.answered();
      EXPECT_EQ(after - before, 201U) << protocol;
      before = after;
    }
  }
}

// The server stands still for a while in the midst of a load.
json load_with_a_stall(const Words& loop) {
  const HalfPlusTwo server;
  testing::RunningProgram load(MUSTER_PROGRAM, load_words(server, "rest", loop));
  EXPECT_TRUE(testing::eventually([&] { return server.answered() > 20; }));
  server.send(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  server.send(SIGCONT);
  const Outcome outcome = load.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return only_step(outcome);
}

TEST(Load, OfAnOpenLoopHasAStallOfTheServerInItsPercentilesAndAClosedLoopHasNot) {
  // 100 requests a second for 4 s, so at least 60 of 400 were due 0.2 s or more before the server
  // went on.
  const json open =
      load_with_a_stall({"--rate", "100", "--arrivals", "constant", "--seconds", "4"});
  EXPECT_EQ(open["requests"], 400);
  EXPECT_EQ(open["failed"], 0) << open;
  EXPECT_GE(open["latency_ms"]["p90"], 200) << open;
  // A closed loop waits, and asks nothing meanwhile: one request has the whole stall.
  const json closed = load_with_a_stall({"--concurrency", "1", "--seconds", "4"});
  EXPECT_GE(closed["latency_ms"]["max"], 600) << closed;
  EXPECT_LT(closed["latency_ms"]["p90"], open["latency_ms"]["p90"]) << closed;
}

TEST(Load, PrintsWhatWasMeasuredWhenItIsInterrupted) {
  const HalfPlusTwo server;
  testing::RunningProgram load(MUSTER_PROGRAM,
                               load_words(server, "grpc", {"--rate", "200", "--seconds", "3600"}));
  EXPECT_TRUE(testing::eventually([&] { return server.answered() > 50; }));
  load.send(SIGINT);
  const Outcome outcome = load.wait();
  EXPECT_EQ(outcome.status, 128 + SIGINT);
  EXPECT_FALSE(outcome.killed);
  const json step = only_step(outcome);
  EXPECT_GE(step["requests"], 40) << outcome.out;
  EXPECT_TRUE(step.contains("unfinished"));
}

TEST(Load, TakesInstancesFromAFile) {
  const HalfPlusTwo server;
  const testing::TempDir folder;
  testing::write_bytes(folder / "good", "[1]\n[2]\n[5]\n");
  testing::write_bytes(folder / "bad", "[1]\n[\"a\"]\n");
  for (const char* const protocol : {"rest", "grpc"}) {
    const Outcome good = testing::run_program(
        MUSTER_PROGRAM,
        load_words(server, protocol,
                   {"--requests", "30", "--rows", "2", "--instances", folder / "good"}));
    EXPECT_EQ(good.status, 0) << good.err;
    EXPECT_EQ(only_step(good)["failed"], 0) << good.out;
  }
  // Over REST the server finds what is wrong: the answers are errors, and a bound can ask for none.
  const Outcome bad = testing::run_program(
      MUSTER_PROGRAM,
      load_words(server, "rest",
                 {"--requests", "30", "--max-error-percent", "1", "--instances", folder / "bad"}));
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(only_step(bad)["errors"][0]["kind"], "HTTP 400");
  EXPECT_THAT(bad.err, HasSubstr("50 % of the requests failed, and 1 % may"));
}

TEST(Load, FindsTheKneeAndDrawsIt) {
  const HalfPlusTwo server;
  const testing::TempDir folder;
  const Outcome outcome = testing::run_program(
      MUSTER_PROGRAM, load_words(server, "rest",
                                 {"--find-knee", "--rate", "20", "--max-rate", "40", "--seconds",
                                  "1", "--max-p99-ms", "60000", "--plot", folder / "knee.svg"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["knee"], 40.0);
  EXPECT_EQ(report["steps"].size(), 2U);
  EXPECT_THAT(testing::read_bytes(folder / "knee.svg"), HasSubstr(">knee 40<"));
}

TEST(Load, RefusesFlagsThatWouldMeasureNothing) {
  const auto refuses = [](const Words& words, const std::string& text) {
    const Outcome outcome =
        testing::run_program(MUSTER_PROGRAM, Words{"load", "--server", "127.0.0.1:1"} + words);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  refuses({kModel, "--rate", "1e8"}, "--rate must be positive numbers up to 10000000");
  refuses({kModel, "--rate", ""}, "--rate: must not be empty");
  refuses({kModel, "--concurrency", "1,100001"}, "--concurrency must be positive numbers up to");
  refuses({"m="}, "a model has one weight, MODEL=WEIGHT: m=");
  refuses({"m=1,2"}, "a model has one weight, MODEL=WEIGHT: m=1,2");
  refuses({"m", "m=2"}, "model m is named twice");
  refuses({"m", "--instances", "other=a"}, "--instances must be FILE or MODEL=FILE");
  refuses({"m", "--recorded", "a", "--recorded", "b"}, "--recorded: a second file");
  refuses({"m", "--instances", "m=a", "--instances", "m=b"}, "a second file for m: m=b");
  refuses({kModel, "--max-p99-ms", "0"}, "--max-p99-ms must be positive: 0");
  refuses({kModel, "--max-error-percent", "101"}, "--max-error-percent must be from 0 to 100");
  refuses({kModel, "--find-knee", "--max-rate", "nan"}, "--max-rate must be from 100");
  refuses({kModel, "--requests", "0"}, "--requests must be positive: 0");
  refuses({kModel, "--requests", "-1"}, "must be a whole number: -1");
  refuses({kModel, "--seed", "-1"}, "must be a whole number: -1");
  refuses({kModel, "--seconds", "1e-12"}, "--seconds must be from 1e-9 to 1e6");
  refuses({kModel, "--rows", "1000000000000"}, "--rows must be from 1 to 67108864");
  refuses({kModel, "--plot", "no_such_folder/a.svg"}, "there is no folder no_such_folder");
  refuses({kModel, "--rate", "10", "--threads", "257"}, "--threads must be from 1 to 256");
}

TEST(Load, PrintsTheStepsBeforeOneThatFails) {
  const HalfPlusTwo server;
  const Words words = load_words(server, "rest", {"--requests", "20", "--concurrency", "1,1000"});
  const Outcome outcome = testing::run_program(
      "/bin/sh", Words{"-c", "ulimit -n 200 && exec \"$0\" \"$@\"", MUSTER_PROGRAM} + words);
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("1000 connections need as many open files"));
  EXPECT_EQ(only_step(outcome)["requests"], 20);
}

TEST(Load, SaysWhatIsWrong) {
  const HalfPlusTwo server;
  const std::string& rest = server.address("rest");
  const auto fails = [](const Words& words, int status, const std::string& text) {
    const Outcome outcome = testing::run_program(MUSTER_PROGRAM, Words{"load"} + words);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  fails({kModel, "--rate", "0", "--server", rest}, 2, "--rate must be positive numbers");
  fails({kModel, "--rate", "10", "--concurrency", "1,2"}, 2, "--concurrency: with --rate");
  fails({kModel, "--server", "nowhere"}, 2, "--server must be HOST:PORT: nowhere");
  fails({"=2", "--server", rest}, 2, "a model must be NAME");
  fails({kModel, "--plot", "a.png", "--server", rest}, 2, "its name must end in .svg: a.png");
  fails({"nobody", "--server", rest}, 1, "before the load, model nobody: ");
  fails({kModel, "--server", rest, "--signature-name", "none"}, 1, "has no signature none; it has");
  // The server at that port speaks HTTP/1.1.
  fails({kModel, "--server", rest, "--protocol", "grpc"}, 1, "may not speak this protocol");
  fails({kModel, "--server", server.address("grpc")}, 1, "may not speak this protocol");
  fails({kModel, "--server", "127.0.0.1:1"}, 75, "no server answers at 127.0.0.1:1");
}

}  // namespace
}  // namespace muster
