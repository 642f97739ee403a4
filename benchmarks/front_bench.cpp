// The cost of the front of `muster serve --nodes`: latencies and rate through it over those of the
// node behind it, asked itself. The hop is HTTP/1.1 over loopback, as the requests are.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/error.h"
#include "muster/testing/eventually.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using testing::operator+;
using testing::Words;

constexpr const char* kModel = "half_plus_two";

/// A front with one node.
class Front {
 public:
  Front()
      : program_(MUSTER_PROGRAM,
                 {"serve", std::string(EXAMPLES_DIR) + "/half_plus_two", "--nodes", "1",
                  "--address", "127.0.0.1", "--port", "0", "--rest-api-port", "auto"}) {
    const bool has_begun = testing::eventually([&] {
      address_ = text_behind("REST API at:", " ...");
      return !address_.empty() || program_.ended();
    });
    if (!has_begun || address_.empty()) throw Unavailable("muster serve: {}", program_.err());
    node_ = text_behind(" address=", " ");
  }
  const std::string& address() const { return address_; }
  const std::string& node() const { return node_; }

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
  // One for each comparison: programs beside a test are ended after two minutes.
  const Front front;
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
  return report.finish();
}
