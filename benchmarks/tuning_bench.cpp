#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "benchmarks/report.h"
#include "muster/orchestration/tuning/search_algorithms.h"

// Regret of searchers after so many trials, compared with BoTorch and Optuna, and the time that
// they take. Regret is the best value minus the function's minimum, the median over seeds.
// Functions and protocol are those of anchors/tuning_optuna.py.

namespace muster {
namespace {

using tuning::Observation;
using tuning::Point;

double branin(const Point& x) {
  constexpr double kPi = std::numbers::pi;
  const double u = 15 * x[0] - 5;
  const double v = 15 * x[1];
  const double valley = v - 5.1 / (4 * kPi * kPi) * u * u + 5 / kPi * u - 6;
  return valley * valley + 10 * (1 - 1 / (8 * kPi)) * std::cos(u) + 10;
}

double hartmann6(const Point& x) {
  constexpr double kHeights[4] = {1.0, 1.2, 3.0, 3.2};
  constexpr double kSlopes[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                    {0.05, 10, 17, 0.1, 8, 14},
                                    {3, 3.5, 1.7, 10, 17, 8},
                                    {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double kCentres[4][6] = {{1312, 1696, 5569, 124, 8283, 5886},
                                     {2329, 4135, 8307, 3736, 1004, 9991},
                                     {2348, 1451, 3522, 2883, 3047, 6650},
                                     {4047, 8828, 8732, 5743, 1091, 381}};
  double sum = 0;
  for (int i = 0; i < 4; ++i) {
    double exponent = 0;
    for (std::size_t j = 0; j < 6; ++j) {
      const double away = x[j] - kCentres[i][j] / 1e4;
      exponent += kSlopes[i][j] * away * away;
    }
    sum -= kHeights[i] * std::exp(-exponent);
  }
  return sum;
}

// Over -2..2.
double rosenbrock4(const Point& x) {
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double z = 4 * x[i] - 2;
    const double valley = 4 * x[i + 1] - 2 - z * z;
    sum += 100 * valley * valley + (1 - z) * (1 - z);
  }
  return sum;
}

struct Problem {
  const char* name;
  double (*function)(const Point&);
  std::size_t dimensions;
  double minimum;
  // Regret of BoTorch's Gaussian process with log expected improvement, 50 trials, 16 seeds.
  double botorch_regret;
};
constexpr Problem kProblems[] = {{"branin", branin, 2, 0.397887, 0.00147},
                                 {"hartmann6", hartmann6, 6, -3.32237, 0.0954},
                                 {"rosenbrock4", rosenbrock4, 4, 0, 4.88}};

std::unique_ptr<tuning::Searcher> searcher_for(const char* algorithm, std::size_t dimensions,
                                               std::uint64_t seed) {
  std::vector<tuning::ParameterSpec> parameters;
  for (std::size_t i = 0; i < dimensions; ++i) {
    parameters.push_back({.name = fmt::format("x{}", i), .max_value = 1});
  }
  return make_searcher(algorithm, tuning::SearchSpace(std::move(parameters)), seed);
}

std::vector<Observation> run_study(const Problem& problem, const char* algorithm,
                                   std::uint64_t seed, std::size_t trials, std::size_t batch) {
  const auto searcher = searcher_for(algorithm, problem.dimensions, seed);
  std::vector<Observation> history;
  while (history.size() < trials) {
    for (const Point& point : searcher->suggest(batch, history)) {
      history.push_back({point, Observation::Outcome::kDone, problem.function(point)});
    }
  }
  return history;
}

constexpr std::uint64_t kSeeds = 16;
// A third of the studies of Hartmann's function end in its second minimum: the median of few seeds
// hangs on a single study.
constexpr std::uint64_t kBatchSeeds = 48;

double median_regret(const Problem& problem, const char* algorithm, std::size_t trials,
                     std::size_t batch = 1, std::uint64_t seeds = kSeeds) {
  std::vector<double> regrets;
  for (std::uint64_t seed = 0; seed < bench::sized<std::uint64_t>(seeds, 1); ++seed) {
    double best = std::numeric_limits<double>::infinity();
    for (const Observation& trial : run_study(problem, algorithm, seed, trials, batch)) {
      best = std::min(best, trial.loss);
    }
    regrets.push_back(best - problem.minimum);
  }
  return bench::median(std::move(regrets));
}

nlohmann::json optuna() {
  if (bench::is_quick()) return nlohmann::json::object();
  const char* python = std::getenv("MUSTER_PYTHON");
  const std::string command =
      fmt::format("{} {}/benchmarks/anchors/tuning_optuna.py 2>/dev/null",
                  python == nullptr ? "/usr/bin/python3" : python, MUSTER_SOURCE_DIR);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 4096> buffer{};
  while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) {
    text += buffer.data();
  }
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    fmt::print(stderr, "no anchor: python3-optuna and python3-cmaes are not installed\n");
    return nlohmann::json::object();
  }
  fmt::print(stderr, "anchor tuning_optuna.py: {}\n", json.dump());
  return json;
}

void against_botorch(bench::Report& report) {
  for (const Problem& problem : kProblems) {
    const auto name =
        fmt::format("tuning: BoTorch's regret over ours, {}, 50 trials", problem.name);
    if (!report.wants(name)) continue;
    const double regret = median_regret(problem, tuning::kDefaultAlgorithm, bench::sized(50, 12));
    fmt::print(stderr, "{} bayesian regret={:.4g}\n", problem.name, regret);
    report.add({.name = name,
                .value = problem.botorch_regret / regret,
                .unit = "times",
                .at_least = 0.5,
                .aim = 1});
  }
}

void against_optuna(bench::Report& report) {
  if (!report.wants("tuning: Optuna's regret over ours")) return;
  const auto anchor = optuna();
  struct Pair {
    const char* name;
    const char* algorithm;
  };
  for (const Pair pair :
       {Pair{"tpe", "TPE"}, Pair{"cma_es", "CMA_ES"}, Pair{"random", "RANDOM_SEARCH"}}) {
    for (const Problem& problem : kProblems) {
      const double regret = median_regret(problem, pair.algorithm, bench::sized(50, 12));
      fmt::print(stderr, "{} {} regret={:.4g}\n", problem.name, pair.name, regret);
      if (anchor.empty()) continue;
      report.add({.name = fmt::format("tuning: Optuna's regret over ours, {}, {}", pair.name,
                                      problem.name),
                  .value = anchor.at(pair.name).at(problem.name).get<double>() / regret,
                  .unit = "times",
                  .at_least = 1});
    }
  }
}

void batches(bench::Report& report) {
  const std::size_t trials = bench::sized(64, 16);
  for (const Problem& problem : kProblems) {
    const auto name = fmt::format("tuning: regret one by one over batches of 8, {}", problem.name);
    if (!report.wants(name)) continue;
    const double batch = median_regret(problem, tuning::kDefaultAlgorithm, trials, 8, kBatchSeeds);
    const double one = median_regret(problem, tuning::kDefaultAlgorithm, trials, 1, kBatchSeeds);
    fmt::print(stderr, "{} after {} trials: one by one={:.4g} batches of 8={:.4g}\n", problem.name,
               trials, one, batch);
    report.add(
        {.name = name, .value = one / batch, .unit = "times", .at_least = 1.0 / 3, .aim = 1 / 1.5});
  }
}

void speed(bench::Report& report) {
  struct Case {
    const char* name;
    const char* algorithm;
    double at_least;
    double aim;
  };
  for (const Case& one :
       {Case{"bayesian", tuning::kDefaultAlgorithm, 20, 100}, Case{"tpe", "TPE", 500, 2000}}) {
    const auto name = fmt::format("tuning: suggestions, {}, 50 trials of 6 parameters", one.name);
    if (!report.wants(name)) continue;
    const auto history = run_study(kProblems[1], "QUASI_RANDOM_SEARCH", 1, bench::sized(50, 12), 1);
    const auto searcher = searcher_for(one.algorithm, 6, 1);
    const double seconds =
        bench::median_seconds([&] { bench::keep(searcher->suggest(1, history)); }, report.effort());
    report.add({.name = name,
                .value = 1 / seconds,
                .unit = "1/s",
                .at_least = one.at_least,
                .aim = one.aim});
  }
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::bench::Report report(argc, argv);
  muster::speed(report);
  muster::against_botorch(report);
  muster::batches(report);
  muster::against_optuna(report);
  return report.finish();
}
