#include "muster/orchestration/tuning/contour.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster::tuning {
namespace {

Study study_of_bowl(std::size_t trials) {
  Study study;
  study.spec.goal = Goal::kMinimize;
  study.spec.params = {{.name = "x", .max_value = 1},
                       {.name = "y", .min_value = 1, .max_value = 100, .scale = Scale::kLog},
                       {.name = "z", .max_value = 1}};
  Random random(7);
  for (std::size_t i = 0; i < trials; ++i) {
    const double x = random.uniform();
    const double y = std::pow(100, random.uniform());
    const double value = (x - 0.25) * (x - 0.25) + (std::log10(y) - 1) * (std::log10(y) - 1);
    study.trials.push_back({.id = static_cast<std::int64_t>(i) + 1,
                            .state = TrialState::kSucceeded,
                            .values = {{"x", value_text(x)}, {"y", value_text(y)}, {"z", "0.5"}},
                            .final_metric = Measurement{1, value}});
  }
  return study;
}

TEST(Contour, IsLowestWhereTheMetricIs) {
  const auto found = contour(study_of_bowl(40), "x", "y");
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->means.size(), kContourPlaces * kContourPlaces);
  const auto lowest = static_cast<std::size_t>(
      std::min_element(found->means.begin(), found->means.end()) - found->means.begin());
  EXPECT_NEAR(static_cast<double>(lowest % kContourPlaces) / (kContourPlaces - 1), 0.25, 0.1);
  EXPECT_NEAR(static_cast<double>(lowest / kContourPlaces) / (kContourPlaces - 1), 0.5, 0.1);
  EXPECT_NEAR(found->means[0], 0.0625 + 1, 0.15);
  EXPECT_EQ(found->y.values.front(), "1");
  EXPECT_EQ(found->y.values.back(), "100");
  EXPECT_EQ(found->trials.size(), 40U);
}

TEST(Contour, NeedsTrialsAndTwoParametersThatAreThere) {
  EXPECT_FALSE(contour(study_of_bowl(7), "x", "y").has_value());
  EXPECT_THROW(contour(study_of_bowl(8), "x", "w"), NotFound);
  EXPECT_THROW(contour(study_of_bowl(8), "x", "x"), InvalidArgument);
}

}  // namespace
}  // namespace muster::tuning
