#include "muster/orchestration/tuning/population.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "muster/base/error.h"

namespace muster::tuning {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kDone = Observation::Outcome::kDone;
constexpr auto kFailed = Observation::Outcome::kFailed;

PopulationPlan plan_of(std::size_t size, std::size_t rounds, PopulationTraining how = {}) {
  HyperparameterSpec spec{.max_trials = static_cast<std::int64_t>(size * rounds)};
  how.size = static_cast<std::int64_t>(size);
  spec.population = how;
  return make_population_plan(spec, 100);
}

SearchSpace rates() {
  return SearchSpace({{.name = "rate", .min_value = 1e-4, .max_value = 1, .scale = Scale::kLog}});
}

// One round with these losses; the values of member i are at (i + 1) / 10.
std::vector<Observation> round_of(const std::vector<double>& losses) {
  std::vector<Observation> round;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    round.push_back({{static_cast<double>(i + 1) / 10}, kDone, losses[i]});
  }
  return round;
}

TEST(Population, DividesTheStepsIntoRounds) {
  EXPECT_THAT(plan_of(4, 3).rounds, ElementsAre(33, 66, 100));
  HyperparameterSpec spec{.max_trials = 12, .max_parallel_trials = 2};
  spec.population.emplace();
  EXPECT_EQ(make_population_plan(spec, 9).size, 4U);
  spec.max_parallel_trials = 6;
  EXPECT_EQ(make_population_plan(spec, 9).size, 6U);
  spec.max_trials = 13;
  EXPECT_THROW(make_population_plan(spec, 9), InvalidArgument);
  spec.max_trials = 60;
  EXPECT_THROW(make_population_plan(spec, 9), InvalidArgument);
}

TEST(Population, WaitsForAllOfTheRoundBefore) {
  const auto plan = plan_of(4, 2);
  auto history = round_of({4, 1, 3, 2});
  EXPECT_TRUE(can_begin(plan, {}, 0));
  EXPECT_TRUE(can_begin(plan, {}, 3));
  EXPECT_TRUE(can_begin(plan, history, 4));
  EXPECT_FALSE(can_begin(plan, history, 8)) << "there are two rounds";
  history[2].outcome = Observation::Outcome::kRunning;
  EXPECT_FALSE(can_begin(plan, history, 4));
  for (Observation& trial : history) trial.outcome = kFailed;
  EXPECT_FALSE(can_begin(plan, history, 4)) << "there is no checkpoint to go on from";
}

TEST(Population, LetsTheWorstGoOnFromOneOfTheBest) {
  const auto plan = plan_of(8, 2);
  const SearchSpace space = rates();
  const auto history = round_of({5, 1, 8, 3, 4, 2, 7, 6});
  for (std::size_t trial = 8; trial < 16; ++trial) {
    const auto from = inherit(plan, space, 1, history, trial);
    if (trial - 8 == 2 || trial - 8 == 6) {
      EXPECT_TRUE(from.parent == 1 || from.parent == 5) << from.parent;
      EXPECT_NE(from.point, history[from.parent].point);
    } else {
      EXPECT_EQ(from.parent, trial - 8);
      EXPECT_EQ(from.point, history[trial - 8].point);
    }
  }
}

TEST(Population, DrawsAnotherParentForAnotherSeed) {
  const auto plan = plan_of(8, 2);
  const auto history = round_of({5, 1, 8, 3, 4, 2, 7, 6});
  std::set<std::size_t> parents;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    parents.insert(inherit(plan, rates(), seed, history, 10).parent);
  }
  EXPECT_THAT(parents, ElementsAre(1, 5));
}

TEST(Population, NeverGoesOnFromOneThatFailed) {
  auto history = round_of({1, 2, 3, 4});
  history[0].outcome = kFailed;
  history[1].outcome = kFailed;
  history[2].outcome = kFailed;
  for (std::size_t trial = 4; trial < 8; ++trial) {
    EXPECT_EQ(inherit(plan_of(4, 2), rates(), 1, history, trial).parent, 3U);
  }
}

TEST(Population, CopiesNobodyWithAQuantileOfNone) {
  const auto history = round_of({4, 1, 3, 2});
  for (std::size_t trial = 4; trial < 8; ++trial) {
    const auto from = inherit(plan_of(4, 2, {.quantile = 0}), rates(), 1, history, trial);
    EXPECT_EQ(from.parent, trial - 4);
  }
}

TEST(Population, PerturbsByAFifthOrDrawsAnew) {
  const SearchSpace space = rates();
  auto history = round_of({1, 2, 3, 4});
  const double before = std::stod(space.values_of(history[0].point).at("rate"));
  std::set<int> factors;
  int drawn = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto point = inherit(plan_of(4, 2), space, seed, history, 7).point;
    const double factor = std::stod(space.values_of(point).at("rate")) / before;
    const bool is_perturbed = std::abs(factor - 0.8) < 1e-9 || std::abs(factor - 1.2) < 1e-9;
    if (is_perturbed) factors.insert(static_cast<int>(std::lround(10 * factor)));
    drawn += is_perturbed ? 0 : 1;
  }
  EXPECT_THAT(factors, ElementsAre(8, 12));
  EXPECT_GT(drawn, 25);
  EXPECT_LT(drawn, 80);
}

TEST(Population, PerturbsEveryTypeAndKeepsWhatIsInherited) {
  const SearchSpace space(
      {{.name = "units", .type = ParameterType::kInteger, .min_value = 1, .max_value = 100},
       {.name = "batch",
        .type = ParameterType::kDiscrete,
        .min_value = 16,
        .max_value = 64,
        .discrete_values = {16, 32, 64}},
       {.name = "kind", .type = ParameterType::kCategorical, .categorical_values = {"a", "b", "c"}},
       {.name = "layer", .type = ParameterType::kInteger, .min_value = 1, .max_value = 100}});
  const auto plan =
      plan_of(2, 2, {.quantile = 0.5, .resample_probability = 0, .inherited_params = {"layer"}});
  const Values values{{"units", "2"}, {"batch", "32"}, {"kind", "b"}, {"layer", "7"}};
  const std::vector<Observation> history{{space.point_of(values), kDone, 1},
                                         {space.point_of(values), kDone, 2}};
  std::set<std::string> units, batches, kinds;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto now = space.values_of(inherit(plan, space, seed, history, 3).point);
    units.insert(now.at("units"));
    batches.insert(now.at("batch"));
    kinds.insert(now.at("kind"));
    EXPECT_EQ(now.at("layer"), "7");
  }
  // A fifth of 2 is less than 1: another value all the same.
  EXPECT_THAT(units, ElementsAre("1", "3"));
  EXPECT_THAT(batches, ElementsAre("16", "64"));
  EXPECT_THAT(kinds, ElementsAre("a", "c"));
}

TEST(Population, StaysWithinTheRange) {
  const SearchSpace space = rates();
  EXPECT_EQ(space.scaled(0, 1, 1.2), 1);
  EXPECT_EQ(space.scaled(0, 0, 0.8), 0);
}

std::string refusal_of(const std::string& more) {
  try {
    parse_hyperparameters(
        R"({"algorithm": "POPULATION_BASED_TRAINING", "params": [{"parameterName": "x",
            "type": "INTEGER", "minValue": 1, "maxValue": 9}])" +
        more + "}");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "none";
}

TEST(Population, IsReadFromItsField) {
  EXPECT_EQ(refusal_of(""), "none");
  EXPECT_EQ(refusal_of(R"(, "population": {"size": 6, "quantile": 0.2, "inheritedParams": ["x"]})"),
            "none");
  EXPECT_THAT(refusal_of(R"(, "population": {"quantile": 0.6})"), HasSubstr("population.quantile"));
  EXPECT_THAT(refusal_of(R"(, "population": {"sise": 6})"), HasSubstr("size"));
  EXPECT_THAT(refusal_of(R"(, "population": {"inheritedParams": ["y"]})"),
              HasSubstr("no parameter y"));
  EXPECT_THAT(refusal_of(R"(, "population": {"stepsFlag": "x"})"), HasSubstr("--x to every trial"));
  EXPECT_THAT(refusal_of(R"(, "trialStopping": {"rule": "ASHA"})"), HasSubstr("trialStopping"));
  EXPECT_THAT(refusal_of(R"(, "stepsParameter": "x")"), HasSubstr("stepsParameter"));
}

}  // namespace
}  // namespace muster::tuning
