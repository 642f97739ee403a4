#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/nn/optim/slot_count.h"
#include "muster/nn/optim/update_reference_internal.h"
#include "muster/nn/optim/updater.h"

namespace muster {
namespace {

constexpr std::int64_t kElements = 23;

// The paper's points z, x and y, each kept, in double.
struct PointsInDouble {
  explicit PointsInDouble(const std::vector<float>& initial)
      : z(initial.begin(), initial.end()), x(z), y(z), v(z.size(), 0.0) {}

  void step(const std::vector<float>& g, double rate, std::int64_t t) {
    largest = std::max(largest, rate);
    sum += largest * largest;
    const double c = sum > 0 ? largest * largest / sum : 0;
    for (std::size_t i = 0; i < z.size(); ++i) {
      v[i] = 0.99 * v[i] + 0.01 * static_cast<double>(g[i]) * g[i];
      const double v_hat = v[i] / (1 - std::pow(0.99, static_cast<double>(t)));
      const double n = g[i] / (std::sqrt(v_hat) + 1e-8) + 0.05 * y[i];
      z[i] -= rate * n;
      x[i] = (1 - c) * x[i] + c * z[i];
      y[i] = (1 - 0.9) * z[i] + 0.9 * x[i];
    }
  }

  std::vector<double> z, x, y, v;
  double largest = 0;
  double sum = 0;
};

const Optimizer kScheduleFree = schedule_free_adam(
    {.learning_rate = warm_up(0.01, {.steps = 10}), .beta2 = 0.99, .weight_decay = 0.05});

std::vector<float> gradients_of(std::int64_t step) {
  return testing::normal_floats(kElements, 100 + static_cast<std::uint64_t>(step), 1.0);
}

void apply(Updater& updater, const Variables& variables, std::int64_t step) {
  Gradients gradients = variables.make_gradients();
  std::vector<float> values = gradients_of(step);
  gradients.of(variables.all()[0]).copy_(torch::from_blob(values.data(), {kElements}));
  updater.apply(gradients, step);
}

TEST(ScheduleFreeAdam, IsThePapersAfterAHundredStepsWithAWarmUp) {
  const Variables variables({{.name = "w", .shape = {kElements}}});
  std::vector<float> initial = testing::normal_floats(kElements, 1, 0.3);
  variables.all()[0].value.copy_(torch::from_blob(initial.data(), {kElements}));
  Updater updater(variables, kScheduleFree);
  PointsInDouble points(initial);
  for (std::int64_t step = 0; step < 100; ++step) {
    points.step(gradients_of(step), kScheduleFree.learning_rate().at(step), step + 1);
    apply(updater, variables, step);
  }
  const auto offset = evaluation_offset(kScheduleFree, "w");
  ASSERT_TRUE(offset);
  ASSERT_EQ(offset->slot, updater.tensors()[0].name);
  const at::Tensor evaluated =
      variables.all()[0].value.add(updater.tensors()[0].tensor, offset->factor);
  for (std::int64_t i = 0; i < kElements; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_NEAR(variables.all()[0].value[i].item<double>(), points.y[at], 1e-6);
    EXPECT_NEAR(evaluated[i].item<double>(), points.x[at], 1e-6);
    EXPECT_GT(std::abs(points.x[at] - points.y[at]), 1e-5);
  }
}

// The share of a step in the average follows from the schedule, not from steps that were made.
TEST(ScheduleFreeAdam, ContinuesWithTheSameBitsInAnotherUpdater) {
  const Variables whole({{.name = "w", .shape = {kElements}}});
  const Variables cut({{.name = "w", .shape = {kElements}}});
  Updater one(whole, kScheduleFree);
  for (std::int64_t step = 0; step < 30; ++step) apply(one, whole, step);
  Updater first(cut, kScheduleFree);
  for (std::int64_t step = 0; step < 15; ++step) apply(first, cut, step);
  Updater second(cut, kScheduleFree);
  restore(second.tensors(), first.tensors());
  for (std::int64_t step = 15; step < 30; ++step) apply(second, cut, step);
  EXPECT_TRUE(torch::equal(whole.flat(), cut.flat()));
}

TEST(ScheduleFreeAdam, IsDescribedFoundByNameAndChecked) {
  EXPECT_EQ(optimizer_by_name("ScheduleFreeAdam").description(),
            "schedule_free_adam(learning_rate = constant 0.0025, beta1 = 0.9, beta2 = 0.999, "
            "epsilon = 1e-08, weight_decay = 0)");
  EXPECT_THROW(schedule_free_adam({.beta1 = 0}), InvalidArgument);
  EXPECT_TRUE(has_evaluation_offset(kScheduleFree));
  EXPECT_FALSE(has_evaluation_offset(adam()));
}

}  // namespace
}  // namespace muster
