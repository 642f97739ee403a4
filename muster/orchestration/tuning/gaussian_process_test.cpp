#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "muster/base/random.h"
#include "muster/orchestration/tuning/gaussian_process_internal.h"
#include "muster/orchestration/tuning/minimize_internal.h"

namespace muster::tuning {
namespace {

// A wave along the first coordinate; the second says nothing, the third is a category with an
// offset.
double wave(const std::vector<double>& point) {
  return std::sin(6 * point[0]) + (point[2] > 0.5 ? 0.8 : -0.8);
}

GaussianProcess::Data wave_data(std::size_t count, double noise) {
  GaussianProcess::Data data{.is_categorical = {false, false, true}};
  Random random(3);
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<double> point{random.uniform(), random.uniform(),
                                    random.coin() ? 0.75 : 0.25};
    data.points.insert(data.points.end(), point.begin(), point.end());
    data.values.push_back(wave(point) + noise * random.normal());
  }
  return data;
}

TEST(GaussianProcess, PredictsWhatItHasNotSeen) {
  const GaussianProcess model(wave_data(40, 0));
  for (const double x : {0.15, 0.4, 0.8}) {
    for (const double category : {0.25, 0.75}) {
      const std::vector<double> point{x, 0.5, category};
      const auto prediction = model.predict(point, false);
      EXPECT_NEAR(prediction.mean, wave(point), 0.05);
      EXPECT_LT(prediction.deviation, 0.1);
    }
  }
  EXPECT_GT(model.length_scales()[1], 3 * model.length_scales()[0]);
  EXPECT_LT(model.noise(), 1e-4);
}

TEST(GaussianProcess, TellsNoiseFromSignal) {
  const GaussianProcess model(wave_data(80, 0.3));
  EXPECT_GT(model.noise(), 0.01);
  const std::vector<double> point{0.4, 0.5, 0.25};
  EXPECT_NEAR(model.predict(point, false).mean, wave(point), 0.3);
}

TEST(GaussianProcess, ItsSlopesAreThoseOfItsPredictions) {
  const GaussianProcess model(wave_data(20, 0.05));
  const std::vector<double> point{0.33, 0.62, 0.25};
  const auto prediction = model.predict(point, true);
  constexpr double kStep = 1e-6;
  for (std::size_t i = 0; i < 2; ++i) {
    auto above = point;
    auto below = point;
    above[i] += kStep;
    below[i] -= kStep;
    const auto high = model.predict(above, false);
    const auto low = model.predict(below, false);
    EXPECT_NEAR(prediction.mean_gradient[i], (high.mean - low.mean) / (2 * kStep), 1e-5);
    EXPECT_NEAR(prediction.deviation_gradient[i], (high.deviation - low.deviation) / (2 * kStep),
                1e-4);
  }
}

TEST(GaussianProcess, ManyPredictionsAreThoseOfOneByOne) {
  const GaussianProcess model(wave_data(20, 0.05));
  std::vector<double> means;
  std::vector<double> deviations;
  model.predict({0.1, 0.2, 0.25, 0.7, 0.3, 0.75}, means, deviations);
  const auto second = model.predict({0.7, 0.3, 0.75}, false);
  ASSERT_EQ(means.size(), 2U);
  EXPECT_NEAR(means[1], second.mean, 1e-12);
  EXPECT_NEAR(deviations[1], second.deviation, 1e-9);
}

TEST(GaussianProcess, KnowsMoreNearAPointItBelieves) {
  GaussianProcess model(wave_data(10, 0));
  const std::vector<double> point{0.95, 0.95, 0.25};
  const auto before = model.predict(point, false);
  model.believe(point);
  const auto after = model.predict(point, false);
  EXPECT_NEAR(after.mean, before.mean, 1e-6);
  EXPECT_LT(after.deviation, 0.1 * before.deviation);
}

TEST(Minimize, FindsTheValleysEndAndStaysInTheBox) {
  const Differentiable rosenbrock = [](const std::vector<double>& x,
                                       std::vector<double>& gradient) {
    const double valley = x[1] - x[0] * x[0];
    gradient[0] = -400 * x[0] * valley - 2 * (1 - x[0]);
    gradient[1] = 200 * valley;
    return 100 * valley * valley + (1 - x[0]) * (1 - x[0]);
  };
  const auto free = minimize(rosenbrock, {-1.2, 1}, {-2, -2}, {2, 2}, 300);
  EXPECT_NEAR(free.place[0], 1, 1e-3);
  EXPECT_NEAR(free.place[1], 1, 1e-3);
  const auto bound = minimize(rosenbrock, {-1.2, 0.1}, {-2, -2}, {2, 0.25}, 300);
  EXPECT_NEAR(bound.place[0], 0.5, 0.01);
  EXPECT_NEAR(bound.place[1], 0.25, 1e-9);
}

}  // namespace
}  // namespace muster::tuning
