// Label smoothing, focal loss and class weights, by the formulas in double.
#include <gmock/gmock.h>
#include <torch/types.h>

#include <array>
#include <cmath>

#include "muster/base/error.h"
#include "muster/nn/model/head.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::HasSubstr;

constexpr double kSmoothing = 0.2;
constexpr double kGamma = 1.5;

double log_sigmoid(double z) { return -std::log1p(std::exp(-z)); }

double cross_entropy(double z, double target) {
  return -target * log_sigmoid(z) - (1 - target) * log_sigmoid(-z);
}

/// The loss and the gradient of the logits that training sees.
struct Trained {
  double loss;
  at::Tensor gradient;
};

Trained train(const Head& head, const at::Tensor& values, const at::Tensor& labels) {
  const auto logits = values.clone().set_requires_grad(true);
  const auto batch = make_batch({}, labels);
  const auto loss = head.spec(batch, Mode::kTrain, logits).loss;
  loss.backward();
  const auto evaluated = head.spec(batch, Mode::kEval, values).loss.item<double>();
  EXPECT_NEAR(evaluated, loss.item<double>(), 1e-6);
  return {loss.item<double>(), logits.grad()};
}

// The gradient of the loss by central differences.
void expect_gradient(const Head& head, const at::Tensor& values, const at::Tensor& labels) {
  const auto wide = values.to(torch::kDouble);
  const auto gradient = train(head, wide, labels).gradient.view({-1});
  for (std::int64_t i = 0; i < wide.numel(); ++i) {
    const auto moved = [&](double step) {
      auto at = wide.clone();
      at.view({-1})[i] += step;
      return train(head, at, labels).loss;
    };
    EXPECT_NEAR(gradient[i].item<double>(), (moved(1e-4) - moved(-1e-4)) / 2e-4, 1e-6) << i;
  }
}

TEST(ClassLoss, OfTwoClassesIsTheFormula) {
  const auto head = binary_class_head(
      {.label_smoothing = kSmoothing, .focal_gamma = kGamma, .class_weights = {0.5, 3.0}});
  const auto logits = torch::tensor({{2.0F}, {-1.0F}, {0.25F}});
  const auto labels = torch::tensor({1, 1, 0});
  const std::array<double, 3> z{2.0, -1.0, 0.25};
  const std::array<double, 3> y{1, 1, 0};
  double wanted = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double right = 1 / (1 + std::exp(y[i] == 1 ? -z[i] : z[i]));
    wanted += (y[i] == 1 ? 3.0 : 0.5) * std::pow(1 - right, kGamma) *
              cross_entropy(z[i], y[i] * (1 - kSmoothing) + kSmoothing / 2) / 3;
  }
  EXPECT_NEAR(train(*head, logits, labels).loss, wanted, 1e-6);
  expect_gradient(*head, logits, labels);
}

TEST(ClassLoss, OfManyClassesIsTheFormula) {
  const auto head = multi_class_head(3, {.loss_reduction = Reduction::kSum,
                                         .label_smoothing = kSmoothing,
                                         .focal_gamma = kGamma,
                                         .class_weights = {1.0, 2.0, 0.25}});
  const auto logits = torch::tensor({{1.0F, 0.5F, -2.0F}, {0.0F, -1.0F, 3.0F}});
  const auto labels = torch::tensor({1, 0});
  const std::array<std::array<double, 3>, 2> z{{{1.0, 0.5, -2.0}, {0.0, -1.0, 3.0}}};
  const std::array<std::size_t, 2> y{1, 0};
  const std::array<double, 3> weights{1.0, 2.0, 0.25};
  double wanted = 0;
  for (std::size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (const double value : z[row]) sum += std::exp(value);
    double loss = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const double target = kSmoothing / 3 + (i == y[row] ? 1 - kSmoothing : 0);
      loss -= target * (z[row][i] - std::log(sum));
    }
    const double right = std::exp(z[row][y[row]]) / sum;
    wanted += weights[y[row]] * std::pow(1 - right, kGamma) * loss;
  }
  EXPECT_NEAR(train(*head, logits, labels).loss, wanted, 1e-5);
  expect_gradient(*head, logits, labels);
}

TEST(ClassLoss, OfLabelsIsTheFormula) {
  const auto head = multi_label_head(
      2, {.label_smoothing = kSmoothing, .focal_gamma = kGamma, .class_weights = {1.0, 4.0}});
  const auto logits = torch::tensor({{2.0F, -1.0F}});
  const auto labels = torch::tensor({{0, 1}});
  const double first = std::pow(1 / (1 + std::exp(-2.0)), kGamma) * cross_entropy(2, 0.1);
  const double second = 4 * std::pow(1 / (1 + std::exp(-1.0)), kGamma) * cross_entropy(-1, 0.9);
  EXPECT_NEAR(train(*head, logits, labels).loss, (first + second) / 2, 1e-6);
  expect_gradient(*head, logits, labels);
}

TEST(ClassLoss, WithoutOptionsIsThePlainOneToTheBit) {
  const auto logits = torch::randn({16, 4});
  const auto labels = torch::randint(4, {16});
  const auto plain = train(*multi_class_head(4), logits, labels);
  const auto ones = train(*multi_class_head(4, {.class_weights = {1, 1, 1, 1}}), logits, labels);
  EXPECT_NEAR(plain.loss, ones.loss, 1e-6);
  EXPECT_EQ(plain.loss, at::cross_entropy_loss(logits, labels).item<double>());
}

TEST(ClassLoss, HasAFiniteGradientWhereAnExampleIsLearnt) {
  const auto head = binary_class_head({.focal_gamma = 0.5});
  const auto done = train(*head, torch::tensor({{200.0F}, {-200.0F}}), torch::tensor({1, 0}));
  EXPECT_TRUE(done.gradient.isfinite().all().item<bool>());
  const auto classes = multi_class_head(3, {.focal_gamma = 0.5});
  const auto sure = train(*classes, torch::tensor({{200.0F, 0.0F, 0.0F}}), torch::tensor({0}));
  EXPECT_TRUE(sure.gradient.isfinite().all().item<bool>());
}

TEST(ClassLoss, RefusesOptionsOutOfRange) {
  EXPECT_THAT(message_of([] { binary_class_head({.label_smoothing = 1.0}); }),
              HasSubstr("binary_class_head: label_smoothing must be in [0, 1): 1"));
  EXPECT_THROW(multi_class_head(3, {.focal_gamma = -1}), InvalidArgument);
  EXPECT_THAT(message_of([] {
                multi_class_head(3, {.class_weights = {1, 2}});
              }),
              HasSubstr("there are 2 class_weights for 3 classes"));
  EXPECT_THROW(multi_label_head(2, {.class_weights = {1, -1}}), InvalidArgument);
  EXPECT_THAT(message_of([] { regression_head(1, {.focal_gamma = 2}); }),
              HasSubstr("regression_head has no use for the option focal_gamma"));
  EXPECT_THROW(poisson_head(1, {.class_weights = {1}}), InvalidArgument);
}

}  // namespace
}  // namespace muster
