#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include "muster/nn/model/dense_stack_internal.h"
#include "muster/nn/model/mlp.h"
#include "muster/nn/model/sigmoid_loss_internal.h"

namespace muster::internal {
namespace {

at::Tensor leaf(at::IntArrayRef shape) { return torch::randn(shape).requires_grad_(true); }

DenseStack make_stack(bool relu_at_end) {
  return {.kernels = {leaf({7, 30}), leaf({30, 13}), leaf({13, 3})},
          .biases = {leaf({30}), at::Tensor(), leaf({3})},
          .relu_at_end = relu_at_end};
}

// The same by libtorch's operations, in double precision.
at::Tensor reference(at::Tensor x, const DenseStack& stack) {
  for (std::size_t i = 0; i < stack.kernels.size(); ++i) {
    x = torch::mm(x, stack.kernels[i].to(torch::kDouble));
    if (stack.biases[i].defined()) x = x + stack.biases[i].to(torch::kDouble);
    if (i + 1 < stack.kernels.size() || stack.relu_at_end) x = torch::relu(x);
  }
  return x;
}

// Clears gradients and returns those that backward() left.
std::vector<at::Tensor> take_gradients(const DenseStack& stack, at::Tensor input) {
  std::vector<at::Tensor> gradients;
  const auto take = [&gradients](at::Tensor tensor) {
    if (!tensor.defined()) return;
    gradients.push_back(tensor.grad().clone());
    tensor.mutable_grad().reset();
  };
  take(input);
  for (const auto& kernel : stack.kernels) take(kernel);
  for (const auto& bias : stack.biases) take(bias);
  return gradients;
}

TEST(DenseStack, GivesTheOutputAndGradientsOfLibtorch) {
  torch::manual_seed(1);
  for (const bool relu_at_end : {false, true}) {
    const DenseStack stack = make_stack(relu_at_end);
    const auto input = leaf({11, 7});
    const auto weights = torch::randn({11, 3});
    ASSERT_TRUE(dense_stack_takes(input, stack));
    const auto ours = dense_stack(input, stack);
    (ours * weights).sum().backward();
    const auto gradients = take_gradients(stack, input);
    const auto wanted = reference(input.to(torch::kDouble), stack);
    (wanted * weights).sum().backward();
    EXPECT_TRUE(torch::allclose(ours.to(torch::kDouble), wanted, 1e-5, 1e-5));
    const auto wanted_gradients = take_gradients(stack, input);
    ASSERT_EQ(gradients.size(), wanted_gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_TRUE(torch::allclose(gradients[i], wanted_gradients[i], 1e-4, 1e-4)) << i;
    }
  }
}

TEST(DenseStack, LeavesTheCallersGradientAlone) {
  const DenseStack stack = make_stack(/*relu_at_end=*/true);
  const auto gradient = torch::ones({4, 3});
  dense_stack(leaf({4, 7}), stack).backward(gradient);
  EXPECT_TRUE(torch::equal(gradient, torch::ones({4, 3})));
}

TEST(DenseStack, NoticesAKernelThatChangedBeforeBackward) {
  DenseStack stack = make_stack(/*relu_at_end=*/false);
  const auto y = dense_stack(leaf({4, 7}), stack);
  {
    const torch::NoGradGuard no_grad;
    stack.kernels[1].add_(1);
  }
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

TEST(DenseStack, MakesNoGraphWithoutGradients) {
  const DenseStack stack = make_stack(/*relu_at_end=*/false);
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(dense_stack(torch::randn({4, 7}), stack).requires_grad());
}

TEST(DenseStack, LeavesOtherTypesAndShapesToLibtorch) {
  const DenseStack stack = make_stack(/*relu_at_end=*/false);
  EXPECT_FALSE(dense_stack_takes(torch::randn({4, 7}, torch::kDouble), stack));
  EXPECT_FALSE(dense_stack_takes(torch::randn({4, 6}), stack));
  EXPECT_FALSE(dense_stack_takes(torch::randn({7, 4}).t(), stack));
}

TEST(DenseStack, IsWhatAnMlpOfReluIsMadeOf) {
  Mlp mlp({.inputs = 7, .hidden_units = {9, 5}, .outputs = 2});
  const auto y = mlp.forward(torch::randn({3, 7}));
  EXPECT_EQ(y.grad_fn()->name(), "MusterDenseStackBackward");
  Mlp other({.inputs = 7, .hidden_units = {9, 5}, .outputs = 2, .activation = [](const auto& x) {
               return torch::tanh(x);
             }});
  EXPECT_TRUE(other.forward(torch::randn({3, 7})).requires_grad());
}

TEST(SigmoidCrossEntropy, GivesTheLossAndGradientOfLibtorch) {
  torch::manual_seed(2);
  for (const auto reduction : {at::Reduction::Sum, at::Reduction::Mean, at::Reduction::None}) {
    const auto logits = (torch::randn({40, 1}) * 20).requires_grad_(true);
    const auto targets = torch::rand({40, 1});
    const auto ours = sigmoid_cross_entropy(logits, targets, reduction);
    ours.sum().backward();
    const auto gradient = logits.grad().clone();
    logits.mutable_grad().reset();
    const auto wanted = at::binary_cross_entropy_with_logits(logits, targets, {}, {}, reduction);
    wanted.sum().backward();
    EXPECT_TRUE(torch::allclose(ours, wanted, 1e-5, 1e-5)) << reduction;
    EXPECT_TRUE(torch::allclose(gradient, logits.grad(), 1e-4, 1e-6)) << reduction;
  }
}

}  // namespace
}  // namespace muster::internal
