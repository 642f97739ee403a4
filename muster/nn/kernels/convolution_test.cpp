#include "muster/nn/kernels/convolution.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <ostream>

namespace muster::kernels {
namespace {

struct ConvolutionCase {
  std::int64_t batch, channels, height, width, outputs, kernel_height, kernel_width, stride,
      padding;
};

std::ostream& operator<<(std::ostream& out, const ConvolutionCase& c) {
  return out << c.batch << "x" << c.channels << "x" << c.height << "x" << c.width << " to "
             << c.outputs << ", kernel " << c.kernel_height << "x" << c.kernel_width << ", stride "
             << c.stride << ", padding " << c.padding;
}

// Real layers, and edges: odd sizes, kernels as large as the image, strides beyond the kernel, rows
// and columns that no weight reaches.
constexpr ConvolutionCase kConvolutionCases[] = {
    {2, 1, 28, 28, 32, 3, 3, 1, 1},  {2, 32, 14, 14, 64, 3, 3, 1, 1},
    {2, 16, 32, 32, 16, 3, 3, 1, 1}, {3, 16, 8, 8, 32, 3, 3, 2, 1},
    {2, 3, 13, 9, 5, 5, 3, 2, 2},    {2, 5, 9, 7, 6, 1, 1, 2, 0},
    {1, 3, 11, 12, 9, 7, 7, 3, 1},   {1, 4, 6, 5, 5, 2, 3, 1, 0},
    {2, 2, 5, 5, 3, 5, 5, 1, 0},     {1, 17, 4, 3, 1, 2, 2, 3, 1},
    {1, 1, 1, 1, 1, 3, 3, 1, 1}};

struct Tensors {
  explicit Tensors(const ConvolutionCase& c)
      : input(torch::randn({c.batch, c.channels, c.height, c.width})),
        weight(torch::randn({c.outputs, c.channels, c.kernel_height, c.kernel_width})),
        bias(torch::randn({c.outputs})),
        convolution{{c.stride, c.stride}, {c.padding, c.padding}} {}
  at::Tensor input, weight, bias;
  Convolution convolution;
};

bool close(const at::Tensor& ours, const at::Tensor& theirs) {
  const double scale = std::max(theirs.abs().max().item<double>(), 1.0);
  return (ours.to(torch::kDouble) - theirs).abs().max().item<double>() < 1e-5 * scale;
}

TEST(Convolution, GivesTheOutputAndGradientsOfLibtorchInDoublePrecision) {
  torch::manual_seed(1);
  for (const ConvolutionCase& c : kConvolutionCases) {
    const Tensors t(c);
    const auto leaf = [](const at::Tensor& tensor) {
      return tensor.to(torch::kDouble).requires_grad_(true);
    };
    const auto input = leaf(t.input), weight = leaf(t.weight), bias = leaf(t.bias);
    const auto wanted = at::conv2d(input, weight, bias, c.stride, c.padding);
    EXPECT_TRUE(close(convolve(t.input, t.weight, t.bias, t.convolution), wanted)) << c;

    const auto gradient = torch::randn(wanted.sizes());
    wanted.backward(gradient.to(torch::kDouble));
    const auto [dx, dw, db] =
        convolve_backward(gradient, t.input, t.weight, t.convolution, {true, true, true});
    EXPECT_TRUE(close(dx, input.grad())) << c;
    EXPECT_TRUE(close(dw, weight.grad())) << c;
    EXPECT_TRUE(close(db, bias.grad())) << c;
  }
}

TEST(Convolution, GivesTheSameBitsForAnyNumberOfThreads) {
  const Tensors t({5, 20, 9, 9, 19, 3, 3, 2, 1});
  const auto run = [&] {
    const auto y = convolve(t.input, t.weight, t.bias, t.convolution);
    const auto [dx, dw, db] =
        convolve_backward(y, t.input, t.weight, t.convolution, {true, true, true});
    return torch::cat({y.flatten(), dx.flatten(), dw.flatten(), db});
  };
  at::set_num_threads(1);
  const auto one = run();
  for (const int threads : {2, 3, 4}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(torch::equal(run(), one)) << threads;
  }
  at::set_num_threads(1);
}

TEST(Convolution, TakesViewsAndGivesOnlyTheGradientsThatAreWanted) {
  torch::manual_seed(2);
  const auto input = torch::randn({2, 6, 6, 3}).permute({0, 3, 1, 2});
  const auto weight = torch::randn({4, 3, 3, 3});
  const auto y = convolve(input, weight, {}, {});
  EXPECT_TRUE(torch::equal(y, convolve(input.contiguous(), weight, {}, {})));
  const auto [dx, dw, db] = convolve_backward(y, input, weight, {}, {false, true, false});
  EXPECT_FALSE(dx.defined());
  EXPECT_TRUE(dw.defined());
  EXPECT_FALSE(db.defined());
}

}  // namespace
}  // namespace muster::kernels
