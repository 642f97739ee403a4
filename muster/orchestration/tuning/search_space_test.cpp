#include "muster/orchestration/tuning/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster::tuning {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

ParameterSpec number(ParameterType type, double low, double high, Scale scale = Scale::kLinear) {
  return {.name = "x", .type = type, .min_value = low, .max_value = high, .scale = scale};
}

std::string value_at(const ParameterSpec& parameter, double coordinate) {
  return SearchSpace({parameter}).values_of({coordinate}).at("x");
}

ParameterSpec double_of(double low, double high, Scale scale) {
  return number(ParameterType::kDouble, low, high, scale);
}

// The table of Vizier's converter.
TEST(SearchSpace, LaysOutRangesByTheirScale) {
  EXPECT_EQ(value_at(double_of(50, 400, Scale::kLinear), 0.5), "225");
  EXPECT_NEAR(std::stod(value_at(double_of(1e-4, 1e-1, Scale::kLog), 0.5)), 0.0031623, 1e-7);
  EXPECT_NEAR(std::stod(value_at(double_of(0.1, 0.9, Scale::kReverseLog), 0.5)), 0.7, 1e-12);
  for (const Scale scale : {Scale::kLinear, Scale::kLog, Scale::kReverseLog}) {
    EXPECT_EQ(value_at(double_of(0.1, 0.9, scale), 0), "0.1");
    EXPECT_EQ(value_at(double_of(0.1, 0.9, scale), 1), "0.9");
  }
}

TEST(SearchSpace, GivesEveryIntegerItsFullShare) {
  const SearchSpace space({number(ParameterType::kInteger, 1, 4)});
  std::map<std::string, int> counts;
  for (int i = 0; i < 1000; ++i) ++counts[space.values_of({(i + 0.5) / 1000}).at("x")];
  EXPECT_THAT(counts, ElementsAre(Pair("1", 250), Pair("2", 250), Pair("3", 250), Pair("4", 250)));
}

TEST(SearchSpace, DealsDiscreteValuesEvenlyAndSnapsToTheNearest) {
  const SearchSpace space({{.name = "x",
                            .type = ParameterType::kDiscrete,
                            .min_value = 1,
                            .max_value = 100,
                            .discrete_values = {1, 2, 100}}});
  std::map<std::string, int> counts;
  for (int i = 0; i < 300; ++i) {
    ++counts[space.values_of(space.from_uniform({(i + 0.5) / 300})).at("x")];
  }
  EXPECT_THAT(counts, ElementsAre(Pair("1", 100), Pair("100", 100), Pair("2", 100)));
  EXPECT_EQ(space.values_of(space.snap({0.4})).at("x"), "2");
}

TEST(SearchSpace, HasOneValueWhereARangeHasNone) {
  EXPECT_EQ(value_at(number(ParameterType::kDouble, 3, 3), 0.9), "3");
  EXPECT_EQ(value_at(number(ParameterType::kInteger, 3, 3), 0.9), "3");
}

SearchSpace mixed_space() {
  return SearchSpace({{.name = "optimizer",
                       .type = ParameterType::kCategorical,
                       .categorical_values = {"adam", "sgd"}},
                      {.name = "momentum",
                       .min_value = 0.1,
                       .max_value = 0.9,
                       .scale = Scale::kReverseLog,
                       .condition = ParameterSpec::Condition{.parent = 0, .values = {"sgd"}}},
                      {.name = "units",
                       .type = ParameterType::kInteger,
                       .min_value = 1,
                       .max_value = 512,
                       .scale = Scale::kLog},
                      {.name = "rate", .min_value = 1e-5, .max_value = 1, .scale = Scale::kLog}});
}

TEST(SearchSpace, ReadsBackWhatItWrote) {
  const SearchSpace space = mixed_space();
  Random random(7);
  for (int i = 0; i < 500; ++i) {
    Point uniform(space.size());
    for (double& coordinate : uniform) coordinate = random.uniform();
    const Point point = space.from_uniform(uniform);
    const Point read = space.point_of(space.values_of(point));
    for (std::size_t j = 0; j < point.size(); ++j) {
      EXPECT_EQ(std::isnan(read[j]), std::isnan(point[j]));
      if (!std::isnan(point[j])) EXPECT_NEAR(read[j], point[j], 1e-12);
    }
  }
}

TEST(SearchSpace, GivesAChildAValueWithItsParentsAlone) {
  const SearchSpace space = mixed_space();
  EXPECT_EQ(space.values_of(space.from_uniform({0.1, 0.5, 0.5, 0.5})).count("momentum"), 0U);
  EXPECT_EQ(space.values_of(space.from_uniform({0.9, 0.5, 0.5, 0.5})).count("momentum"), 1U);
}

TEST(SearchSpace, RefusesValuesThatAreNotInIt) {
  const SearchSpace space = mixed_space();
  EXPECT_THROW(space.point_of({{"optimizer", "adam"}, {"units", "5"}}), InvalidArgument);
  EXPECT_THROW(space.point_of({{"optimizer", "rms"}, {"units", "5"}, {"rate", "0.1"}}),
               InvalidArgument);
  EXPECT_THROW(space.point_of({{"optimizer", "adam"}, {"units", "513"}, {"rate", "0.1"}}),
               InvalidArgument);
  EXPECT_THROW(space.point_of({{"optimizer", "adam"}, {"units", "5"}, {"rate", "nan"}}),
               InvalidArgument);
}

}  // namespace
}  // namespace muster::tuning
