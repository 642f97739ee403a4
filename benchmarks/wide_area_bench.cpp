// Steps a second of the examples on hosts that are apart, by delay and rate of what lies between
// them, over what the way of a step's messages costs at least: see limit_of(). Needs root.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/error.h"
#include "muster/testing/hosts/hosts.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::operator+;
using testing::Hosts;
using testing::Link;
using testing::Outcome;
using testing::Words;

constexpr double kGigabit = 1e9;

/// An example with data that was made up.
struct Example {
  std::string name;
  std::string program;
  Words flags;
  /// Whether its gradients are summed in slices, which cross the network once more.
  bool is_sliced = false;
};

/// Tasks, each on a host of its own.
struct Layout {
  std::string name;
  std::size_t workers = 0;
  std::size_t servers = 0;

  /// How often a step's messages cross the network one after the other, at least: gradients that
  /// two tasks exchange cross once, in slices twice, and those that go to a server and come back as
  /// values twice.
  int trips(const Example& example) const { return servers > 0 || example.is_sliced ? 2 : 1; }
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{{"2 tasks, collective", 1, 0}, {"2 tasks, 1 ps", 1, 1}};
  return all;
}

void run_tool(const Words& arguments) {
  const Outcome outcome = testing::run_program(MUSTER_PROGRAM, arguments);
  if (outcome.status != 0) throw Unavailable("muster: {}", outcome.err);
}

std::vector<Example> make_examples(const std::filesystem::path& folder) {
  run_tool({"records", "synth", "census", "--output", folder / "census", "--train", "1000",
            "--test", "200"});
  run_tool(
      {"records", "synth", "mnist", "--output", folder / "idx", "--train", "320", "--test", "64"});
  run_tool({"records", "write", "mnist", "--input", folder / "idx", "--output", folder / "mnist"});
  return {{"census",
           CENSUS_PROGRAM,
           {"--train-files", folder / "census/adult.data.csv", "--eval-files",
            folder / "census/adult.test.csv", "--train-batch-size", "40"},
           /*is_sliced=*/false},
          {"mnist",
           MNIST_PROGRAM,
           {"--train-files", folder / "mnist/train*.tfrecords", "--eval-files",
            folder / "mnist/eval*.tfrecords", "--test-files", folder / "mnist/eval*.tfrecords",
            "--train-batch-size", "8"},
           /*is_sliced=*/true}};
}

/// A run that trains until it has been measured.
class Run {
 public:
  Run(const Example& example, const Layout& layout, const Link& link)
      : layout_(layout), hosts_(1 + layout.workers + layout.servers, link) {
    for (std::size_t host = 0; host < hosts_.size(); ++host) start(example, host);
  }

  struct Figures {
    double steps_per_second = 0;
    /// Bytes that the host which sends most sends.
    double bytes_per_step = 0;
  };
  /// After some steps that do not count.
  Figures measure() {
    wait_for_lines(bench::sized<std::size_t>(2, 1));
    const double bytes_before = bytes_sent();
    const auto from = rates().size();
    wait_for_lines(from + bench::sized<std::size_t>(5, 1));
    const double bytes = bytes_sent() - bytes_before;
    std::vector<double> rates_of_it = rates();
    rates_of_it.erase(rates_of_it.begin(), rates_of_it.begin() + static_cast<long>(from));
    const double steps = static_cast<double>(rates_of_it.size()) * kStepsPerLine;
    return {.steps_per_second = bench::median(rates_of_it), .bytes_per_step = bytes / steps};
  }

 private:
  static constexpr int kStepsPerLine = 10;

  std::string task_of(std::size_t host, const char* format) const {
    if (host == 0) return fmt::format(fmt::runtime(format), "chief", 0);
    if (host <= layout_.workers) return fmt::format(fmt::runtime(format), "worker", host - 1);
    return fmt::format(fmt::runtime(format), "ps", host - 1 - layout_.workers);
  }

  std::string addresses(std::size_t first, std::size_t count) const {
    std::string list;
    for (std::size_t host = first; host < first + count; ++host) {
      list += fmt::format("{}\"{}:2222\"", list.empty() ? "" : ", ", Hosts::name(host));
    }
    return list;
  }

  void start(const Example& example, std::size_t host) {
    const std::string cluster =
        fmt::format(R"({{"chief": [{}], "worker": [{}], "ps": [{}]}})", addresses(0, 1),
                    addresses(1, layout_.workers), addresses(1 + layout_.workers, layout_.servers));
    const std::string task = task_of(host, R"({{"type": "{}", "index": {}}})");
    tasks_.push_back(hosts_.start(
        host, example.program,
        example.flags + Words{"--job-dir", folder_ / task_of(host, "{}-{}"), "--replicas", "2",
                              "--threads-per-replica", "1", "--train-steps", "1000000",
                              "--save-checkpoints-steps", "1000000", "--save-summary-steps", "0",
                              "--log-step-count-steps", std::to_string(kStepsPerLine)},
        {.environment = {fmt::format(R"(TF_CONFIG={{"cluster": {}, "task": {}}})", cluster, task),
                         "MUSTER_SECRET=a long random text"}}));
  }

  // Rates that the chief has logged so far.
  std::vector<double> rates() const {
    static const std::regex line("global_step/sec: ([0-9.e+]+)");
    const std::string log = tasks_.front()->err();
    std::vector<double> found;
    for (std::sregex_iterator at(log.begin(), log.end(), line), end; at != end; ++at) {
      found.push_back(std::stod((*at)[1]));
    }
    return found;
  }

  void wait_for_lines(std::size_t count) {
    while (rates().size() < count) {
      if (tasks_.front()->ended()) throw Unavailable("the chief ended: {}", tasks_.front()->err());
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  double bytes_sent() const {
    double most = 0;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      hosts_.space(host).run([&] {
        std::ifstream file("/proc/thread-self/net/dev");
        for (std::string line; std::getline(file, line);) {
          const auto colon = line.find("eth0:");
          if (colon == std::string::npos) continue;
          std::istringstream fields(line.substr(colon + 5));
          double number = 0;
          // Eight of what was received come first.
          for (int i = 0; i < 9; ++i) fields >> number;
          most = std::max(most, number);
        }
      });
    }
    return most;
  }

  const Layout layout_;
  testing::TempDir folder_;
  Hosts hosts_;
  std::vector<std::unique_ptr<testing::RunningProgram>> tasks_;
};

/// Steps a second if nothing but the least cost were added to a step of hosts without a distance:
/// what messages cross one after the other takes the delay each time, and the bytes that the
/// busiest host sends take their time at the rate.
double limit_of(const Run::Figures& near, int trips, const Link& link) {
  const double delay = std::chrono::duration<double>(link.delay).count();
  const double bytes_seconds = near.bytes_per_step * 8 / static_cast<double>(link.bits_per_second);
  return 1 / (1 / near.steps_per_second + trips * delay + bytes_seconds);
}

void measure(bench::Report& report, const Example& example, const Layout& layout) {
  const auto name_of = [&](int delay, int gigabits) {
    return fmt::format("{}, {}, {} ms, {} Gbit/s", example.name, layout.name, delay, gigabits);
  };
  const std::vector<int> delays = bench::sized<std::vector<int>>({0, 1, 10, 50}, {1});
  std::optional<Run::Figures> near;
  for (const int gigabits : bench::sized<std::vector<int>>({1, 10}, {1})) {
    for (const int delay : delays) {
      if (!report.wants(name_of(delay, gigabits))) continue;
      if (!near) {
        near = Run(example, layout, {}).measure();
        report.add({.name = fmt::format("{}, {}, no distance", example.name, layout.name),
                    .value = near->steps_per_second,
                    .unit = "steps/s"});
        report.add({.name = fmt::format("{}, {}, sent by the busiest", example.name, layout.name),
                    .value = near->bytes_per_step / 1e6,
                    .unit = "MB/step"});
      }
      const Link link{.delay = milliseconds(delay),
                      .bits_per_second = static_cast<std::int64_t>(gigabits * kGigabit)};
      const Run::Figures far = Run(example, layout, link).measure();
      report.add({.name = name_of(delay, gigabits),
                  .value = far.steps_per_second,
                  .unit = "steps/s",
                  .limit = limit_of(*near, layout.trips(example), link),
                  .at_least = 0.7});
    }
  }
}

int main_of(int argc, char** argv) {
  bench::Report report(argc, argv);
  if (const auto refusal = testing::NameSpace::refusal()) {
    fmt::print(stderr, "wide_area_bench: skipped: {}\n", *refusal);
    return report.finish();
  }
  const testing::TempDir folder;
  const auto examples = make_examples(folder.path());
  for (std::size_t example = 0; example < bench::sized(examples.size(), std::size_t{1});
       ++example) {
    for (std::size_t layout = 0; layout < bench::sized(layouts().size(), std::size_t{1});
         ++layout) {
      measure(report, examples[example], layouts()[layout]);
    }
  }
  return report.finish();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::main_of(argc, argv); }
