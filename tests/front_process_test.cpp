// `muster serve --nodes N` as processes: nodes are killed and stopped under load, and no request
// gets a wrong answer or none.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <regex>
#include <thread>

#include "muster/base/process_stat.h"
#include "muster/saved_model/graph/small_models_internal.h"
#include "muster/testing/eventually.h"
#include "muster/testing/process.h"
#include "muster/testing/raw_tcp.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::operator+;
using testing::eventually;
using testing::Outcome;
using testing::RawTcp;
using testing::TempDir;
using testing::Words;

constexpr const char* kRightAnswer = "\r\n\r\n{\n    \"predictions\": [2.0, 3.5\n    ]\n}";

std::string request_of(const std::string& method, const std::string& path,
                       const std::string& body) {
  return fmt::format(
      "{} {} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}", method,
      path, body.size(), body);
}

bool runs(pid_t process) { return ::kill(process, 0) == 0; }

/// A front and its nodes that run beside the test.
class Front {
 public:
  explicit Front(const Words& flags)
      : program_(MUSTER_PROGRAM, Words{"serve", "--address", "127.0.0.1", "--port", "0",
                                       "--rest-api-port", "auto"} +
                                     flags) {
    const std::regex rest("REST API at:(127.0.0.1:[0-9]+)");
    EXPECT_TRUE(eventually([&] {
      const std::string text = program_.err();
      std::smatch match;
      if (std::regex_search(text, match, rest)) address_ = match[1].str();
      return !address_.empty() || program_.ended();
    }));
    EXPECT_NE(address_, "") << program_.err();
  }

  const std::string& address() const { return address_; }
  std::string err() const { return program_.err(); }
  void send(int signal) const { program_.send(signal); }
  Outcome wait() { return program_.wait(); }

  std::string ask(const std::string& method, const std::string& path,
                  const std::string& body = "") const {
    RawTcp client(address_);
    client.send(request_of(method, path, body));
    return client.read_to_end();
  }

  /// Processes of nodes that have been up, in the order in which they came.
  std::vector<pid_t> nodes() const {
    std::vector<pid_t> out;
    const std::string text = err();
    const std::regex up("node [0-9]+ is up process=([0-9]+)");
    for (std::sregex_iterator at(text.begin(), text.end(), up), end; at != end; ++at) {
      out.push_back(std::stoi((*at)[1].str()));
    }
    return out;
  }
  /// "node N": any of several may be up first.
  std::string name_of(pid_t process) const {
    const std::string text = err();
    std::smatch match;
    std::regex_search(text, match,
                      std::regex(fmt::format("(node [0-9]+) is up process={} ", process)));
    return match[1].str();
  }
  bool wait_for_nodes(std::size_t count) const {
    return eventually([&] { return nodes().size() >= count; });
  }

 private:
  testing::RunningProgram program_;
  std::string address_;
};

/// Clients that ask for predictions until they are stopped, each one request after the other.
class Clients {
 public:
  Clients(const Front& front, int count) {
    threads_.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, address = front.address()](const std::stop_token& stop) {
        while (!stop.stop_requested()) ask(address);
      });
    }
  }

  void stop() { threads_.clear(); }
  int right() const { return right_; }
  int unavailable() const { return unavailable_; }
  /// Those that got neither.
  std::string others() const {
    const std::lock_guard lock(mutex_);
    return others_;
  }

 private:
  void ask(const std::string& address) {
    RawTcp client(address);
    client.send(request_of("POST", "/v1/models/adder:predict", R"({"instances": [1, 2.5]})"));
    const std::string answer = client.read_to_end();
    if (answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(kRightAnswer)) {
      ++right_;
    } else if (answer.starts_with("HTTP/1.1 503 ")) {
      ++unavailable_;
    } else {
      const std::lock_guard lock(mutex_);
      others_ += "[" + answer + "]";
    }
  }

  std::atomic<int> right_{0};
  std::atomic<int> unavailable_{0};
  mutable std::mutex mutex_{};
  std::string others_{};
  std::vector<std::jthread> threads_{};
};

class ServeNodes : public ::testing::Test {
 protected:
  ServeNodes() { internal::write_adder(folder_ / "adder/1", 1); }
  Words flags(const Words& more) const { return Words{folder_ / "adder"} + more; }
  TempDir folder_;
};

TEST_F(ServeNodes, KillingNodesLosesNoRequest) {
  Front front(flags({"--nodes", "2"}));
  ASSERT_TRUE(front.wait_for_nodes(2));
  Clients clients(front, 4);
  constexpr int kKills = 4;
  for (int kill = 0; kill < kKills; ++kill) {
    const int before = clients.right();
    ASSERT_TRUE(eventually([&] { return clients.right() > before + 20; }));
    const auto nodes = front.nodes();
    // Each of the two in turn; what takes its place is the last.
    ::kill(nodes[nodes.size() - 2], SIGKILL);
    ASSERT_TRUE(front.wait_for_nodes(nodes.size() + 1)) << front.err();
  }
  const int before = clients.right();
  ASSERT_TRUE(eventually([&] { return clients.right() > before + 20; }));
  clients.stop();
  EXPECT_EQ(clients.others(), "");
  EXPECT_LE(clients.unavailable(), kKills * 4);
  EXPECT_THAT(front.err(), HasSubstr("was killed by SIGKILL; another one takes its place"));
  const std::string metrics = front.ask("GET", "/metrics");
  EXPECT_THAT(
      metrics,
      AllOf(HasSubstr(fmt::format(
                "muster_front_node_ends_total{{reason=\"was killed by SIGKILL\"}} {}\n", kKills)),
            HasSubstr(
                fmt::format("muster_front_requests_total{{status=\"200\"}} {}\n", clients.right())),
            HasSubstr("muster_front_nodes{state=\"up\"} 2\n"),
            HasSubstr("muster_requests_total{model=\"adder\""),
            HasSubstr("muster_ready{node=\"5\"} 1\n")));
  // The nodes end with it, whatever ends it.
  front.send(SIGKILL);
  front.wait();
  for (const pid_t node : front.nodes()) EXPECT_TRUE(eventually([&] { return !runs(node); }));
}

TEST_F(ServeNodes, ANodeThatDoesNotComputeIsReplaced) {
  const Front front(
      flags({"--nodes", "2", "--node-probe-timeout-secs", "0.3", "--node-hang-timeout-secs", "1"}));
  ASSERT_TRUE(front.wait_for_nodes(2));
  Clients clients(front, 4);
  ASSERT_TRUE(eventually([&] { return clients.right() > 20; }));
  const pid_t stopped = front.nodes().front();
  const std::string node = front.name_of(stopped);
  ::kill(stopped, SIGSTOP);
  ASSERT_TRUE(front.wait_for_nodes(3)) << front.err();
  const int before = clients.right();
  ASSERT_TRUE(eventually([&] { return clients.right() > before + 20; }));
  clients.stop();
  EXPECT_EQ(clients.others(), "");
  EXPECT_EQ(clients.unavailable(), 0);  // What it had was asked elsewhere.
  EXPECT_FALSE(runs(stopped));
  EXPECT_THAT(front.err(), AllOf(HasSubstr(node + " gets no requests: it does not answer"),
                                 HasSubstr(node + " did not answer; another one takes its place")));
  EXPECT_THAT(front.ask("GET", "/metrics"),
              AllOf(HasSubstr("muster_front_ejections_total{reason=\"does not answer\"} 1\n"),
                    HasSubstr("muster_front_node_ends_total{reason=\"did not answer\"} 1\n")));
}

TEST_F(ServeNodes, RequestsWaitForTheOnlyNodeAlsoWhileItStops) {
  Front front(flags(
      {"--nodes", "1", "--node-probe-timeout-secs", "0.2", "--node-hang-timeout-secs", "60"}));
  const pid_t node = front.nodes().front();
  const auto ask_while_it_is_stopped = [&](RawTcp& client) {
    ::kill(node, SIGSTOP);
    // Its threads may still run for a moment, and answer.
    const auto is_stopped = [&] { return process_stat(node).value_or(ProcessStat{}).state == 'T'; };
    if (!eventually(is_stopped)) return false;
    client.send(request_of("POST", "/v1/models/adder:predict", R"({"instances": [1, 2.5]})"));
    return eventually([&] {
      return front.ask("GET", "/metrics").find("muster_front_requests_waiting 1\n") !=
             std::string::npos;
    });
  };
  RawTcp first(front.address());
  ASSERT_TRUE(ask_while_it_is_stopped(first));
  EXPECT_THAT(front.ask("GET", "/readyz"),
              AllOf(HasSubstr("503"), HasSubstr("node 0 does not answer")));
  ::kill(node, SIGCONT);
  EXPECT_THAT(first.read_to_end(), HasSubstr(kRightAnswer));
  EXPECT_THAT(front.err(), HasSubstr("node 0 answers again"));
  RawTcp last(front.address());
  ASSERT_TRUE(ask_while_it_is_stopped(last));
  front.send(SIGTERM);
  ASSERT_TRUE(eventually([&] { return front.err().find("stopping: ") != std::string::npos; }));
  ::kill(node, SIGCONT);
  EXPECT_THAT(last.read_to_end(), HasSubstr(kRightAnswer));
  EXPECT_EQ(front.wait().status, 0);
  EXPECT_FALSE(runs(node));
}

TEST_F(ServeNodes, TheirNumberFollowsTheLoadToZeroAndBack) {
  const Front front(flags({"--min-nodes", "0", "--max-nodes", "2", "--node-cool-down-secs", "0.1",
                           "--node-queue-time-ms", "0.0001"}));
  const auto has_logged = [&](const char* text) {
    return eventually([&] { return front.err().find(text) != std::string::npos; });
  };
  ASSERT_TRUE(has_logged("node 0 has ended, as it was asked to")) << front.err();
  EXPECT_THAT(front.ask("GET", "/readyz"), HasSubstr("200 OK"));
  // The first request waits for a node.
  EXPECT_THAT(front.ask("POST", "/v1/models/adder:predict", R"({"instances": [1, 2.5]})"),
              HasSubstr(kRightAnswer));
  EXPECT_THAT(front.err(),
              AllOf(HasSubstr("scaling nodes from=0 to=1"), HasSubstr("node 1 is up")));
  Clients clients(front, 4);
  ASSERT_TRUE(has_logged("to=2 in_flight=")) << front.err();
  ASSERT_TRUE(front.wait_for_nodes(3));
  clients.stop();
  EXPECT_EQ(clients.others(), "");
  EXPECT_EQ(clients.unavailable(), 0);
  std::string metrics;
  ASSERT_TRUE(eventually([&] {
    metrics = front.ask("GET", "/metrics");
    return metrics.find("muster_front_nodes{state=\"up\"} 0\n") != std::string::npos;
  }));
  // Those that are gone stay counted.
  EXPECT_THAT(metrics, HasSubstr("muster_requests_total{model=\"adder\""));
  EXPECT_THAT(metrics, HasSubstr(fmt::format("muster_front_requests_total{{status=\"200\"}} {}\n",
                                             clients.right() + 1)));
}

TEST_F(ServeNodes, SaysAtTheStartWhatIsWrong) {
  std::filesystem::create_directories(folder_ / "broken/1");
  testing::write_bytes(folder_ / "broken/1/saved_model.pb", "no model");
  const Words serve{"serve", "--address", "127.0.0.1", "--rest-api-port", "auto", "--nodes", "2"};
  const Outcome broken = testing::run_program(MUSTER_PROGRAM, serve + Words{folder_ / "broken"});
  EXPECT_EQ(broken.status, 75);
  EXPECT_THAT(broken.err, AllOf(HasSubstr("saved_model.pb"), HasSubstr("before it answered")));
  const Outcome grpc =
      testing::run_program(MUSTER_PROGRAM, serve + Words{folder_ / "adder", "--port", "4711"});
  EXPECT_EQ(grpc.status, 2);
  EXPECT_THAT(grpc.err, HasSubstr("--port 4711"));
  const Outcome bounds =
      testing::run_program(MUSTER_PROGRAM, {"serve", folder_ / "adder", "--rest-api-port", "auto",
                                            "--min-nodes", "3", "--max-nodes", "2"});
  EXPECT_EQ(bounds.status, 1);
  EXPECT_THAT(bounds.err, HasSubstr("--min-nodes must not be more than --max-nodes: 3 and 2"));
}

}  // namespace
}  // namespace muster
