#include "muster/orchestration/tuning/importance.h"

#include <gtest/gtest.h>

#include <functional>

#include "muster/base/random.h"

namespace muster::tuning {
namespace {

// Random trials over x and y, with this metric.
Study study_of(std::size_t trials, const std::function<double(double, double)>& metric) {
  Study study;
  study.spec.params = {{.name = "x", .max_value = 1}, {.name = "y", .max_value = 1}};
  Random random(7);
  for (std::size_t i = 0; i < trials; ++i) {
    const double x = random.uniform();
    const double y = random.uniform();
    study.trials.push_back({.id = static_cast<std::int64_t>(i) + 1,
                            .state = TrialState::kSucceeded,
                            .values = {{"x", value_text(x)}, {"y", value_text(y)}},
                            .final_metric = Measurement{1, metric(x, y)}});
  }
  return study;
}

TEST(Importances, AreTheSharesOfTheVariance) {
  // Share of x alone 4/5, of y alone 1/5.
  const auto shares = importances(study_of(200, [](double x, double y) { return 2 * x + y; }));
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_NEAR(shares[0], 0.8, 0.08);
  EXPECT_NEAR(shares[1], 0.2, 0.08);
}

TEST(Importances, LeaveInterplayToNobody) {
  const auto shares = importances(
      study_of(200, [](double x, double y) { return (x < 0.5) == (y < 0.5) ? 1.0 : 0.0; }));
  EXPECT_LT(shares[0] + shares[1], 0.3);
}

TEST(Importances, NeedTrialsThatDiffer) {
  EXPECT_TRUE(importances(study_of(7, [](double x, double) { return x; })).empty());
  EXPECT_TRUE(importances(study_of(50, [](double, double) { return 1.0; })).empty());
}

}  // namespace
}  // namespace muster::tuning
