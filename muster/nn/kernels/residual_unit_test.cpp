#include "muster/nn/kernels/residual_unit.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <span>

namespace muster::kernels {
namespace {

struct UnitCase {
  std::int64_t batch, channels, outputs, height, width, stride;
};

std::ostream& operator<<(std::ostream& out, const UnitCase& c) {
  return out << c.batch << "x" << c.channels << "x" << c.height << "x" << c.width << " to "
             << c.outputs << ", stride " << c.stride;
}

// The units of the residual network, and edges: odd numbers of channels, one more than fits on both
// sides, small images, more images than one share of a weight's gradient has.
constexpr UnitCase kContiguousCases[] = {
    {2, 16, 16, 32, 32, 1}, {9, 32, 32, 16, 16, 1}, {2, 64, 64, 8, 8, 1}, {3, 16, 32, 32, 32, 2},
    {17, 5, 7, 4, 4, 1},    {2, 3, 6, 6, 8, 2},     {1, 1, 2, 1, 4, 1},   {2, 4, 4, 3, 12, 1}};
// The same with channels side by side: sizes of no tile, panels that are not whole.
constexpr UnitCase kChannelsLastCases[] = {
    {2, 16, 16, 32, 32, 1}, {9, 32, 32, 16, 16, 1}, {2, 64, 64, 8, 8, 1}, {3, 16, 32, 32, 32, 2},
    {17, 16, 48, 5, 7, 1},  {3, 16, 32, 6, 10, 2},  {1, 32, 64, 3, 2, 1}, {2, 16, 16, 2, 2, 2}};

enum class Order { kContiguous, kChannelsLast };
constexpr Order kOrders[] = {Order::kContiguous, Order::kChannelsLast};

at::Tensor in_order(const at::Tensor& images, Order order) {
  return images.contiguous(order == Order::kContiguous ? at::MemoryFormat::Contiguous
                                                       : at::MemoryFormat::ChannelsLast);
}

std::span<const UnitCase> cases_of(Order order) {
  if (order == Order::kContiguous) return kContiguousCases;
  return kChannelsLastCases;
}

NormalisedConvolution random_layer(std::int64_t channels, std::int64_t outputs) {
  return {.weight = torch::randn({outputs, channels, 3, 3}),
          .gamma = torch::rand({outputs}) + 0.5,
          .beta = torch::randn({outputs}),
          .running_mean = torch::randn({outputs}),
          .running_variance = torch::rand({outputs}) + 0.5,
          .momentum = 0.3,
          .epsilon = 1e-3};
}

at::Tensor random_images(const UnitCase& c) {
  // Far from zero: variances that lose digits would show.
  return torch::randn({c.batch, c.channels, c.height, c.width}) + 3;
}

NormalisedConvolution in_double(const NormalisedConvolution& layer) {
  const auto leaf = [](const at::Tensor& tensor) {
    return tensor.to(torch::kDouble).requires_grad_(true);
  };
  return {.weight = leaf(layer.weight),
          .gamma = leaf(layer.gamma),
          .beta = leaf(layer.beta),
          .running_mean = layer.running_mean.to(torch::kDouble),
          .running_variance = layer.running_variance.to(torch::kDouble),
          .momentum = layer.momentum,
          .epsilon = layer.epsilon};
}

// libtorch's own.
at::Tensor normalised(const at::Tensor& x, const NormalisedConvolution& layer,
                      std::int64_t stride) {
  return at::batch_norm(at::conv2d(x, layer.weight, {}, stride, /*padding=*/1), layer.gamma,
                        layer.beta, layer.running_mean, layer.running_variance,
                        /*training=*/true, layer.momentum, layer.epsilon, /*cudnn_enabled=*/false);
}

at::Tensor shortcut(const at::Tensor& x, const UnitCase& c) {
  const auto more = c.outputs - c.channels;
  return at::constant_pad_nd(at::avg_pool2d(x, c.stride, c.stride),
                             {0, 0, 0, 0, more / 2, more - more / 2});
}

void expect_close(const at::Tensor& ours, const at::Tensor& theirs, const char* what,
                  const UnitCase& c) {
  const double scale = std::max(theirs.abs().max().item<double>(), 1.0);
  EXPECT_LT((ours.to(torch::kDouble) - theirs).abs().max().item<double>(), 1e-5 * scale)
      << what << " of " << c;
}

void expect_close(const NormalisedGradients& ours, const NormalisedConvolution& theirs,
                  const UnitCase& c) {
  expect_close(ours.weight, theirs.weight.grad(), "weight's gradient", c);
  expect_close(ours.gamma, theirs.gamma.grad(), "gamma's gradient", c);
  expect_close(ours.beta, theirs.beta.grad(), "beta's gradient", c);
}

void expect_equal_statistics(const NormalisedConvolution& ours, const NormalisedConvolution& theirs,
                             const UnitCase& c) {
  expect_close(ours.running_mean, theirs.running_mean, "running mean", c);
  expect_close(ours.running_variance, theirs.running_variance, "running variance", c);
}

void expect_as_libtorch(const UnitCase& c, Order order) {
  const auto x = in_order(random_images(c), order);
  ASSERT_TRUE(residual_unit_takes(x, c.outputs, c.stride)) << c;
  const auto first = random_layer(c.channels, c.outputs);
  const auto second = random_layer(c.outputs, c.outputs);
  const auto input = x.to(torch::kDouble).requires_grad_(true);
  const auto first_in_double = in_double(first), second_in_double = in_double(second);
  const auto wanted =
      (normalised(normalised(input, first_in_double, c.stride).relu(), second_in_double, 1) +
       shortcut(input, c))
          .relu();
  const auto gradient = in_order(torch::randn(wanted.sizes()), order);
  wanted.backward(gradient.to(torch::kDouble));

  const auto forward = residual_unit(x, first, second, c.stride);
  expect_close(forward.output, wanted, "output", c);
  expect_equal_statistics(first, first_in_double, c);
  expect_equal_statistics(second, second_in_double, c);
  const auto backward = residual_unit_backward(gradient, x, forward, first, second, c.stride);
  expect_close(backward.input, input.grad(), "input's gradient", c);
  expect_close(backward.first, first_in_double, c);
  expect_close(backward.second, second_in_double, c);
}

TEST(ResidualUnit, GivesTheOutputAndGradientsOfLibtorchInDoublePrecision) {
  torch::manual_seed(1);
  for (const Order order : kOrders) {
    for (const UnitCase& c : cases_of(order)) expect_as_libtorch(c, order);
  }
}

TEST(ResidualUnit, GivesResultsInTheOrderOfTheInput) {
  const auto x = in_order(torch::randn({2, 16, 4, 6}), Order::kChannelsLast);
  const auto first = random_layer(16, 32), second = random_layer(32, 32);
  const auto forward = residual_unit(x, first, second, 2);
  EXPECT_TRUE(forward.output.is_contiguous(at::MemoryFormat::ChannelsLast));
  const auto backward = residual_unit_backward(forward.output, x, forward, first, second, 2);
  EXPECT_TRUE(backward.input.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(backward.first.weight.is_contiguous());
}

TEST(NormalisedLayer, GivesTheOutputAndGradientsOfLibtorchInDoublePrecision) {
  torch::manual_seed(2);
  struct LayerCase {
    UnitCase sizes;
    Order order;
  };
  for (const auto& [c, order] : {LayerCase{{9, 3, 16, 8, 8, 1}, Order::kContiguous},
                                 LayerCase{{2, 5, 3, 3, 4, 1}, Order::kContiguous},
                                 LayerCase{{9, 3, 16, 8, 8, 1}, Order::kChannelsLast},
                                 LayerCase{{2, 5, 32, 3, 5, 1}, Order::kChannelsLast}}) {
    const auto x = in_order(random_images(c), order);
    ASSERT_TRUE(normalised_layer_takes(x, c.outputs)) << c;
    const auto layer = random_layer(c.channels, c.outputs);
    const auto input = x.to(torch::kDouble).requires_grad_(true);
    const auto layer_in_double = in_double(layer);
    const auto wanted = normalised(input, layer_in_double, 1).relu();
    const auto gradient = in_order(torch::randn(wanted.sizes()), order);
    wanted.backward(gradient.to(torch::kDouble));

    const auto forward = normalised_layer(x, layer);
    expect_close(forward.output, wanted, "output", c);
    expect_equal_statistics(layer, layer_in_double, c);
    const auto backward = normalised_layer_backward(gradient, x, forward, layer, true);
    expect_close(backward.input, input.grad(), "input's gradient", c);
    expect_close(backward.layer, layer_in_double, c);
    const auto of_images = normalised_layer_backward(gradient, x, forward, layer, false);
    EXPECT_FALSE(of_images.input.defined());
    EXPECT_TRUE(torch::equal(of_images.layer.weight, backward.layer.weight));
  }
}

TEST(ResidualUnit, GivesTheSameBitsForAnyNumberOfThreads) {
  torch::manual_seed(3);
  struct ThreadsCase {
    UnitCase sizes;
    Order order;
  };
  for (const auto& [c, order] : {ThreadsCase{{19, 16, 16, 8, 8, 1}, Order::kContiguous},
                                 ThreadsCase{{19, 4, 9, 8, 8, 2}, Order::kContiguous},
                                 ThreadsCase{{19, 16, 16, 8, 8, 1}, Order::kChannelsLast},
                                 ThreadsCase{{19, 16, 48, 6, 8, 2}, Order::kChannelsLast}}) {
    const auto x = in_order(random_images(c), order);
    const auto first = random_layer(c.channels, c.outputs);
    const auto second = random_layer(c.outputs, c.outputs);
    const auto run = [&, stride = c.stride] {
      const auto forward = residual_unit(x, first, second, stride);
      const auto b = residual_unit_backward(forward.output, x, forward, first, second, stride);
      return torch::cat({forward.output.flatten(), b.input.flatten(), b.first.weight.flatten(),
                         b.first.gamma, b.first.beta, b.second.weight.flatten(), b.second.gamma,
                         b.second.beta});
    };
    at::set_num_threads(1);
    const auto one = run();
    for (const int threads : {2, 3, 4}) {
      at::set_num_threads(threads);
      EXPECT_TRUE(torch::equal(run(), one)) << c << ", " << threads << " threads";
    }
    at::set_num_threads(1);
  }
}

TEST(ResidualUnit, KeepsNotANumber) {
  for (const Order order : kOrders) {
    const UnitCase c{2, 16, 16, 4, 4, 1};
    auto x = random_images(c);
    x[1][2][3][3] = std::numeric_limits<float>::quiet_NaN();
    x = in_order(x, order);
    const auto first = random_layer(16, 16), second = random_layer(16, 16);
    const auto forward = residual_unit(x, first, second, 1);
    EXPECT_TRUE(std::isnan(forward.output.sum().item<float>()));
    const auto backward = residual_unit_backward(torch::ones_like(x), x, forward, first, second, 1);
    EXPECT_TRUE(std::isnan(backward.second.weight.sum().item<float>()));
  }
}

TEST(ResidualUnit, TakesPlainImagesOfSizesThatItKnows) {
  const auto x = torch::zeros({2, 3, 8, 8});
  EXPECT_TRUE(residual_unit_takes(x, 3, 1));
  EXPECT_TRUE(residual_unit_takes(x, 6, 2));
  EXPECT_FALSE(residual_unit_takes(x, 3, 3));
  EXPECT_FALSE(residual_unit_takes(x.to(torch::kDouble), 3, 1));
  EXPECT_FALSE(residual_unit_takes(torch::zeros({2, 3, 8, 6}), 3, 1));
  EXPECT_FALSE(residual_unit_takes(torch::zeros({2, 3, 7, 8}), 3, 2));
  EXPECT_FALSE(residual_unit_takes(torch::zeros({2, 3, 8, 12}), 3, 2));
  EXPECT_FALSE(residual_unit_takes(torch::zeros({0, 3, 8, 8}), 3, 1));
}

TEST(ResidualUnit, TakesChannelsLastInWholeVectors) {
  const auto zeros = [](at::IntArrayRef shape) {
    return in_order(torch::zeros(shape), Order::kChannelsLast);
  };
  EXPECT_TRUE(residual_unit_takes(zeros({2, 16, 7, 5}), 32, 1));
  EXPECT_TRUE(residual_unit_takes(zeros({2, 16, 8, 6}), 32, 2));
  EXPECT_TRUE(normalised_layer_takes(zeros({2, 3, 7, 5}), 16));
  EXPECT_FALSE(residual_unit_takes(zeros({2, 3, 8, 8}), 16, 1));
  EXPECT_FALSE(residual_unit_takes(zeros({2, 16, 8, 8}), 18, 1));
  EXPECT_FALSE(residual_unit_takes(zeros({2, 32, 8, 8}), 16, 1));
  EXPECT_FALSE(residual_unit_takes(zeros({2, 16, 7, 8}), 16, 2));
  EXPECT_FALSE(residual_unit_takes(zeros({2, 16, 8, 8}).to(torch::kDouble), 16, 1));
  EXPECT_FALSE(normalised_layer_takes(zeros({2, 3, 8, 8}), 18));
}

}  // namespace
}  // namespace muster::kernels
