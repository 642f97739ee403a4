#include "muster/orchestration/tuning/search_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>
#include <string>
#include <vector>

namespace muster::tuning {
namespace {

using Outcome = Observation::Outcome;

// Every built-in algorithm that searches DOUBLE parameters.
std::vector<std::string> all_algorithms() {
  std::vector<std::string> names;
  for (const SearchAlgorithm& one : SearchAlgorithms::built_in().all()) {
    if (one.names.front() != "GRID_SEARCH") names.push_back(one.names.front());
  }
  return names;
}

SearchSpace cube(std::size_t dimensions) {
  std::vector<ParameterSpec> parameters;
  for (std::size_t i = 0; i < dimensions; ++i) {
    parameters.push_back({.name = "x" + std::to_string(i), .max_value = 1});
  }
  return SearchSpace(parameters);
}

SearchSpace census_space() {
  return SearchSpace({{.name = "optimizer",
                       .type = ParameterType::kCategorical,
                       .categorical_values = {"adam", "sgd", "ftrl"}},
                      {.name = "momentum",
                       .max_value = 0.9,
                       .condition = ParameterSpec::Condition{.parent = 0, .values = {"sgd"}}},
                      {.name = "units",
                       .type = ParameterType::kInteger,
                       .min_value = 1,
                       .max_value = 64,
                       .scale = Scale::kLog},
                      {.name = "batch",
                       .type = ParameterType::kDiscrete,
                       .min_value = 16,
                       .max_value = 64,
                       .discrete_values = {16, 32, 64}}});
}

double branin(const Point& point) {
  constexpr double kPi = std::numbers::pi;
  const double u = 15 * point[0] - 5;
  const double v = 15 * point[1];
  const double valley = v - 5.1 / (4 * kPi * kPi) * u * u + 5 / kPi * u - 6;
  return valley * valley + 10 * (1 - 1 / (8 * kPi)) * std::cos(u) + 10;
}
constexpr double kBraninMinimum = 0.397887;

using Function = std::function<double(const Point&)>;

std::vector<Observation> run(const std::string& algorithm, const SearchSpace& space,
                             std::uint64_t seed, std::size_t trials, const Function& function,
                             std::size_t batch = 1) {
  const auto searcher = make_searcher(algorithm, space, seed);
  std::vector<Observation> history;
  while (history.size() < trials) {
    for (const Point& point : searcher->suggest(batch, history)) {
      history.push_back({point, Outcome::kDone, function(point)});
    }
  }
  return history;
}

double best_of(const std::vector<Observation>& history) {
  double best = history.front().loss;
  for (const Observation& trial : history) best = std::min(best, trial.loss);
  return best;
}

TEST(Searcher, SaysTheSameForTheSameSeedAndHistory) {
  for (const std::string& algorithm : all_algorithms()) {
    const auto one = run(algorithm, cube(2), 5, 16, branin);
    const auto other = run(algorithm, cube(2), 5, 16, branin);
    const auto third = run(algorithm, cube(2), 6, 16, branin);
    // A searcher that has not seen the study from its beginning.
    const std::vector<Observation> half(one.begin(), one.begin() + 15);
    const auto late = make_searcher(algorithm, cube(2), 5)->suggest(1, half);
    EXPECT_EQ(one.back().point, other.back().point) << algorithm;
    EXPECT_EQ(one.back().point, late.front()) << algorithm;
    EXPECT_NE(one.back().point, third.back().point) << algorithm;
  }
}

TEST(Searcher, SuggestsWhatATrialCanHave) {
  const SearchSpace space = census_space();
  const Function function = [](const Point& point) { return point[2] + point[3]; };
  for (const std::string& algorithm : all_algorithms()) {
    for (const Observation& trial : run(algorithm, space, 1, 24, function, 2)) {
      const Values values = space.values_of(trial.point);
      EXPECT_EQ(values.contains("momentum"), values.at("optimizer") == "sgd") << algorithm;
      EXPECT_NO_THROW(space.point_of(values)) << algorithm;
    }
  }
}

TEST(Searcher, GivesABatchOfDifferentPoints) {
  for (const std::string& algorithm : all_algorithms()) {
    auto history = run(algorithm, cube(2), 2, 12, branin);
    history.push_back({.point = {0.5, 0.5}});
    const auto points = make_searcher(algorithm, cube(2), 2)->suggest(4, history);
    EXPECT_EQ(std::set<Point>(points.begin(), points.end()).size(), 4U) << algorithm;
  }
}

// The median over seeds of what is left to Branin's minimum.
double median_regret(const std::string& algorithm, std::size_t trials, std::size_t batch = 1) {
  std::vector<double> regrets;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    regrets.push_back(best_of(run(algorithm, cube(2), seed, trials, branin, batch)) -
                      kBraninMinimum);
  }
  std::sort(regrets.begin(), regrets.end());
  return regrets[2];
}

TEST(Searcher, FindsBraninsMinimumBetterThanRandom) {
  EXPECT_GT(median_regret("RANDOM_SEARCH", 40), 0.05);
  EXPECT_LT(median_regret(kDefaultAlgorithm, 40), 0.005);
  EXPECT_LT(median_regret("TPE", 100), 0.06);
  EXPECT_LT(median_regret("CMA_ES", 100), 0.06);
}

// Without the lower confidence bound 1e-5: the points of a batch lie too far from the minimum.
TEST(Searcher, SetsABatchAroundTheMinimum) {
  EXPECT_LT(median_regret(kDefaultAlgorithm, 64, 8), 3e-6);
}

TEST(CmaEs, DrawsInMirroredPairs) {
  const SearchSpace space({{.name = "x", .max_value = 1}, {.name = "y", .max_value = 1}});
  const auto points = make_searcher("CMA_ES", space, 3)->suggest(4, {});
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(points[0][i] + points[1][i], 1, 1e-12);
    EXPECT_NEAR(points[2][i] + points[3][i], 1, 1e-12);
    EXPECT_NE(points[0][i], points[2][i]);
  }
}

TEST(Searcher, FindsTheBestOfAMixedSpace) {
  const SearchSpace space = census_space();
  // Best with sgd, momentum 0.45, 8 units, batches of 32.
  const Function function = [&](const Point& point) {
    const Values values = space.values_of(point);
    const double momentum =
        values.contains("momentum") ? std::abs(std::stod(values.at("momentum")) - 0.45) : 1.0;
    return momentum + std::abs(std::log(std::stod(values.at("units")) / 8)) +
           (values.at("batch") == "32" ? 0.0 : 0.5);
  };
  EXPECT_LT(best_of(run(kDefaultAlgorithm, space, 1, 50, function)), 0.15);
  EXPECT_LT(best_of(run("TPE", space, 1, 100, function)), 0.4);
}

TEST(Searcher, KeepsAwayFromWhereTrialsFail) {
  for (const std::string algorithm : {"ALGORITHM_UNSPECIFIED", "TPE", "CMA_ES"}) {
    const auto searcher = make_searcher(algorithm, cube(2), 1);
    std::vector<Observation> history;
    int late_failures = 0;
    for (int i = 0; i < 60; ++i) {
      const Point point = searcher->suggest(1, history).front();
      const bool fails = point[0] > 0.5;
      late_failures += fails && i >= 30 ? 1 : 0;
      history.push_back({point, fails ? Outcome::kFailed : Outcome::kDone,
                         fails ? 0 : (point[1] - 0.3) * (point[1] - 0.3) - point[0]});
    }
    EXPECT_LT(late_failures, 18) << algorithm;
  }
}

TEST(Searcher, GoesOnWhenAllTrialsFailOrAreEqual) {
  for (const std::string& algorithm : all_algorithms()) {
    std::vector<Observation> failed(20, {Point{0.5, 0.5}, Outcome::kFailed, 0});
    std::vector<Observation> equal(20, {Point{0.5, 0.5}, Outcome::kDone, 1});
    EXPECT_EQ(make_searcher(algorithm, cube(2), 1)->suggest(1, failed).size(), 1U);
    const auto point = make_searcher(algorithm, cube(2), 1)->suggest(1, equal).front();
    EXPECT_TRUE(std::isfinite(point[0]) && point[0] >= 0 && point[0] <= 1) << algorithm;
  }
}

TEST(GridSearcher, VisitsEveryPointOnceAndEnds) {
  const SearchSpace space(
      {{.name = "a", .type = ParameterType::kCategorical, .categorical_values = {"p", "q"}},
       {.name = "b",
        .type = ParameterType::kInteger,
        .min_value = 1,
        .max_value = 3,
        .condition = ParameterSpec::Condition{.parent = 0, .values = {"q"}}},
       {.name = "c",
        .type = ParameterType::kDiscrete,
        .min_value = 1,
        .max_value = 2,
        .discrete_values = {1, 2}}});
  const auto searcher = make_searcher("GRID_SEARCH", space, 0);
  std::set<Values> seen;
  std::vector<Observation> history;
  for (;;) {
    const auto points = searcher->suggest(3, history);
    if (points.empty()) break;
    for (const Point& point : points) {
      EXPECT_TRUE(seen.insert(space.values_of(point)).second);
      history.push_back({point, Outcome::kDone, 0});
    }
  }
  EXPECT_EQ(seen.size(), 8U);
}

}  // namespace
}  // namespace muster::tuning
