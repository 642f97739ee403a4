// The cost of `muster load` itself: the rate that it reaches on a server, over that of wrk
// (HTTP/1.1) and h2load (HTTP/2) on the same server, with as many threads and connections. Rows of
// a program that is not installed are not there.
#include <fmt/core.h>
#include <sys/resource.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/error.h"
#include "muster/serving/grpc/grpc_framing.h"
#include "muster/serving/load/load_requests.h"
#include "muster/testing/eventually.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using testing::operator+;
using testing::Words;

constexpr const char* kModel = "half_plus_two";
constexpr int kInFlight = 64;
constexpr int kGrpcConnections = 4;

std::string seconds_of_load() { return bench::is_quick() ? "1" : "5"; }

/// A server of half_plus_two as a process of its own.
class Server {
 public:
  Server()
      : program_(MUSTER_PROGRAM, {"serve", EXAMPLES_DIR "/half_plus_two", "--address", "127.0.0.1",
                                  "--port", "auto", "--rest-api-port", "auto"}) {
    const bool has_begun = testing::eventually([&] {
      rest_ = address_behind("REST API at:");
      return !rest_.empty() || program_.ended();
    });
    if (!has_begun || rest_.empty()) throw Unavailable("muster serve: {}", program_.err());
    grpc_ = address_behind("gRPC ModelServer at ");
  }
  const std::string& rest() const { return rest_; }
  const std::string& grpc() const { return grpc_; }

 private:
  std::string address_behind(std::string_view words) const {
    const std::string text = program_.err();
    const auto at = text.find(words);
    const auto end = at == text.npos ? text.npos : text.find(" ...", at);
    return end == text.npos ? "" : text.substr(at + words.size(), end - at - words.size());
  }

  testing::RunningProgram program_;
  std::string rest_{};
  std::string grpc_{};
};

/// Rate and cost of a load generator.
struct Generated {
  double requests_per_second = 0;
  double processor_seconds = 0;
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// Processor time of programs that have ended, so without the server, which runs on.
double processor_seconds_of_programs() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

/// The output of a program, and the processor time that it has taken.
struct Output {
  std::string text{};
  double processor_seconds = 0;
};

Output output_of(const std::filesystem::path& program, const Words& words) {
  const double before = processor_seconds_of_programs();
  const testing::Outcome outcome = testing::run_program(program, words);
  if (outcome.status != 0) {
    throw Unavailable("{}: {}{}", program.string(), outcome.out, outcome.err);
  }
  return {.text = outcome.out, .processor_seconds = processor_seconds_of_programs() - before};
}

double number_behind(const std::string& text, std::string_view words) {
  const auto at = text.find(words);
  if (at == text.npos) throw Internal("the output has no \"{}\": {}", words, text);
  return std::stod(text.substr(at + words.size()));
}

Generated our_load(const std::string& server, const std::string& protocol,
                   const std::string& lines) {
  const Output out =
      output_of(MUSTER_PROGRAM, {"load", kModel, "--server", server, "--protocol", protocol,
                                 "--instances", lines, "--concurrency", std::to_string(kInFlight),
                                 "--connections", std::to_string(kGrpcConnections), "--seconds",
                                 seconds_of_load(), "--warm-up-seconds", "0", "--json"});
  const auto step = nlohmann::json::parse(out.text).at("steps").at(0);
  if (step.at("failed") != 0) throw Unavailable("muster load: {}", out.text);
  const double requests = step.at("requests");
  return {.requests_per_second = step.at("answers_per_second"),
          .processor_seconds = out.processor_seconds / requests};
}

void compare(bench::Report& report, const std::string& name, const std::function<Generated()>& ours,
             const std::function<Generated()>& theirs) {
  if (!report.wants(name)) return;
  std::vector<double> rates;
  std::vector<double> costs;
  std::vector<double> rate_ratios;
  std::vector<double> cost_ratios;
  for (int i = 0; i < bench::sized(5, 1); ++i) {
    const Generated other = theirs();
    const Generated own = ours();
    rates.push_back(own.requests_per_second);
    costs.push_back(1e6 * own.processor_seconds);
    rate_ratios.push_back(own.requests_per_second / other.requests_per_second);
    cost_ratios.push_back(other.processor_seconds / own.processor_seconds);
  }
  report.add({.name = name + ": rate", .value = bench::median(rates), .unit = "requests/s"});
  report.add({.name = name + ": rate over its",
              .value = bench::median(rate_ratios),
              .unit = "times",
              .at_least = 0.8,
              .aim = 0.95});
  report.add({.name = name + ": processor time of a request",
              .value = bench::median(costs),
              .unit = "us"});
  report.add({.name = name + ": its processor time of a request over ours",
              .value = bench::median(cost_ratios),
              .unit = "times",
              .at_least = 0.5,
              .aim = 0.8});
}

void compare_with_wrk(bench::Report& report, const Server& server, const testing::TempDir& folder) {
  const std::filesystem::path wrk = "/usr/bin/wrk";
  if (!std::filesystem::exists(wrk)) return;
  const Path script = folder / "post.lua";
  testing::write_bytes(script,
                       "wrk.method = \"POST\"\n"
                       "wrk.body = \"{\\\"instances\\\": [[1]]}\"\n"
                       "wrk.headers[\"Content-Type\"] = \"application/json\"\n");
  const std::string url = fmt::format("http://{}/v1/models/{}:predict", server.rest(), kModel);
  compare(
      report, "half_plus_two over REST, 64 connections, beside wrk",
      [&] { return our_load(server.rest(), "rest", folder / "lines"); },
      [&]() -> Generated {
        const Output out = output_of(wrk, {"-t", "1", "-c", std::to_string(kInFlight), "-d",
                                           seconds_of_load() + "s", "-s", script, url});
        const double rate = number_behind(out.text, "Requests/sec:");
        const auto count_end = out.text.find(" requests in ");
        const auto count = out.text.rfind('\n', count_end);
        return {.requests_per_second = rate,
                .processor_seconds = out.processor_seconds / std::stod(out.text.substr(count + 1))};
      });
}

void compare_with_h2load(bench::Report& report, const Server& server,
                         const testing::TempDir& folder) {
  const std::filesystem::path h2load = "/usr/bin/h2load";
  if (!std::filesystem::exists(h2load)) return;
  const graph::SignatureDef signature{
      .inputs = {{"x", {.dtype = graph::DataType::kFloat, .shape = {-1, 1}}}}};
  const auto request = serving::requests_of_lines(serving::LoadProtocol::kGrpc, {.name = kModel},
                                                  signature, "[1]\n", 1)
                           .front();
  const Path body = folder / "message";
  testing::write_bytes(body, serving::grpc_prefix(request.body.size()) + request.body);
  compare(
      report, "half_plus_two over gRPC, 64 in flight on 4 connections, beside h2load",
      [&] { return our_load(server.grpc(), "grpc", folder / "lines"); },
      [&]() -> Generated {
        const Output out = output_of(
            h2load, {"-t", "1", "-c", std::to_string(kGrpcConnections), "-m",
                     std::to_string(kInFlight / kGrpcConnections), "-D", seconds_of_load(), "-d",
                     body, "-H", "content-type: application/grpc", "-H", "te: trailers",
                     fmt::format("http://{}{}", server.grpc(), request.path)});
        const std::string end = out.text.substr(out.text.find("finished in"));
        return {.requests_per_second = number_behind(end, "s, "),
                .processor_seconds = out.processor_seconds / number_behind(end, "requests: ")};
      });
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::bench::Report report(argc, argv);
  const muster::testing::TempDir folder;
  muster::testing::write_bytes(folder / "lines", "[1]\n");
  const muster::Server server;
  muster::compare_with_wrk(report, server, folder);
  muster::compare_with_h2load(report, server, folder);
  return report.finish();
}
