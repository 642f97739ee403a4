// The cost of the front of `muster serve --nodes`: latencies and rate through it over those of the
// node behind it, asked itself. The hop is HTTP/1.1 over loopback, as the requests are.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/error.h"
#include "muster/testing/eventually.h"
#include "muster/testing/process.h"
#include "muster/testing/raw_tcp.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using testing::operator+;
using testing::Words;

constexpr const char* kModel = "half_plus_two";

/// A front with nodes as these flags say.
class Front {
 public:
  explicit Front(const Words& nodes)
      : program_(MUSTER_PROGRAM,
                 Words{"serve", std::string(EXAMPLES_DIR) + "/half_plus_two", "--address",
                       "127.0.0.1", "--port", "0", "--rest-api-port", "auto"} +
                     nodes) {
    const bool has_begun = testing::eventually([&] {
      address_ = text_behind("REST API at:", " ...");
      return !address_.empty() || program_.ended();
    });
    if (!has_begun || address_.empty()) throw Unavailable("muster serve: {}", program_.err());
    node_ = text_behind(" address=", " ");
  }
  const std::string& address() const { return address_; }
  const std::string& node() const { return node_; }
  /// Waits until so many nodes have ended since the start, because there was nothing to do.
  void wait_for_ends(std::size_t count) const {
    constexpr std::string_view kEnd = "has ended, as it was asked to";
    const bool has_ended = testing::eventually([&] {
      const std::string text = program_.err();
      std::size_t ends = 0;
      for (auto at = text.find(kEnd); at != text.npos; at = text.find(kEnd, at + 1)) ++ends;
      return ends >= count;
    });
    if (!has_ended) throw Unavailable("muster serve keeps its nodes: {}", program_.err());
  }

 private:
  std::string text_behind(std::string_view words, std::string_view end_words) const {
    const std::string text = program_.err();
    const auto at = text.find(words);
    const auto begin = at + words.size();
    const auto end = at == text.npos ? text.npos : text.find(end_words, begin);
    return end == text.npos ? "" : text.substr(begin, end - begin);
  }

  testing::RunningProgram program_;
  std::string address_{};
  std::string node_{};
};

nlohmann::json load(const std::string& server, const Words& more) {
  const testing::Outcome outcome =
      testing::run_program(MUSTER_PROGRAM, Words{"load", kModel, "--server", server, "--seconds",
                                                 bench::is_quick() ? "0.5" : "3", "--json"} +
                                               more);
  if (outcome.status != 0) throw Unavailable("muster load: {}{}", outcome.out, outcome.err);
  return nlohmann::json::parse(outcome.out).at("steps").at(0);
}

/// One of the figures of a load, and a bound of its ratio, where more is better.
struct Comparison {
  std::string name;
  double (*figure)(const nlohmann::json& step);
  std::string unit;
  double at_least;
  double aim;
};

double p50(const nlohmann::json& step) { return step.at("latency_ms").at("p50"); }
double p99(const nlohmann::json& step) { return step.at("latency_ms").at("p99"); }
double answers_per_second(const nlohmann::json& step) { return step.at("answers_per_second"); }

// The two loads take turns, so that what else the machine does meets both.
void compare(bench::Report& report, const Words& flags,
             const std::vector<Comparison>& comparisons) {
  const auto is_wanted = [&](const Comparison& one) { return report.wants(one.name); };
  if (std::ranges::none_of(comparisons, is_wanted)) return;
  // One for each comparison: programs beside a test are ended after two minutes.
  const Front front({"--nodes", "1"});
  std::vector<std::vector<double>> values(comparisons.size());
  std::vector<std::vector<double>> ratios(comparisons.size());
  for (int i = 0; i < bench::sized(5, 1); ++i) {
    const nlohmann::json node = load(front.node(), flags);
    const nlohmann::json through = load(front.address(), flags);
    for (std::size_t k = 0; k < comparisons.size(); ++k) {
      const Comparison& one = comparisons[k];
      const double value = one.figure(through);
      const double nodes_own = one.figure(node);
      values[k].push_back(value);
      ratios[k].push_back(one.unit == "ms" ? nodes_own / value : value / nodes_own);
    }
  }
  for (std::size_t k = 0; k < comparisons.size(); ++k) {
    const Comparison& one = comparisons[k];
    const bool is_time = one.unit == "ms";
    report.add({.name = one.name, .value = bench::median(values[k]), .unit = one.unit});
    report.add({.name = one.name + (is_time ? ": the node's own over it" : " over the node's own"),
                .value = bench::median(ratios[k]),
                .unit = "times",
                .at_least = one.at_least,
                .aim = one.aim});
  }
}

// From a request to a server without a node to its answer, the start of the node included.
void from_no_node(bench::Report& report) {
  const std::string name = "from no node to the first answer, in a second";
  if (!report.wants(name)) return;
  const Front front({"--min-nodes", "0", "--max-nodes", "1", "--node-cool-down-secs", "0.1"});
  std::vector<double> rates;
  for (std::size_t i = 1; i <= bench::sized<std::size_t>(15, 1); ++i) {
    front.wait_for_ends(i);
    const auto begin = std::chrono::steady_clock::now();
    testing::RawTcp client(front.address());
    client.send(
        "POST /v1/models/half_plus_two:predict HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
        "Content-Length: 18\r\n\r\n{\"instances\": [1]}");
    const std::string answer = client.read_to_end();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (!answer.starts_with("HTTP/1.1 200 ")) throw Unavailable("the front says {}", answer);
    rates.push_back(1 / seconds.count());
  }
  // A second at most, 0.3 s where it goes well.
  report.add({.name = name,
              .value = bench::median(rates),
              .unit = "times",
              .at_least = 1,
              .aim = 1 / 0.3});
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::bench::Report report(argc, argv);
  // At most 1.5 times the node's own, 1.2 where it goes well.
  muster::compare(
      report, {"--rate", "200"},
      {{"through the front, 200 requests/s: p50", muster::p50, "ms", 1 / 1.5, 1 / 1.2},
       {"through the front, 200 requests/s: p99", muster::p99, "ms", 1 / 1.5, 1 / 1.2}});
  muster::compare(report, {"--concurrency", "32"},
                  {{"through the front, 32 in flight: rate", muster::answers_per_second,
                    "requests/s", 0.7, 0.9}});
  muster::from_no_node(report);
  return report.finish();
}
