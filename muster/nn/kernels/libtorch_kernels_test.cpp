#include "muster/nn/kernels/libtorch_kernels.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <thread>

#include "muster/base/error.h"
#include "muster/nn/kernels/tiles_internal.h"

namespace muster::kernels {
namespace {

/// Output and all gradients of a small network of libtorch's own layers.
at::Tensor run_network() {
  torch::manual_seed(1);
  torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(3, 8, 3).padding(1));
  torch::nn::BatchNorm2d norm(8);
  const auto input = torch::randn({4, 3, 10, 10}).requires_grad_(true);
  const auto output = torch::max_pool2d(norm(convolution(input)).relu(), 2);
  (output * torch::randn(output.sizes())).sum().backward();
  return torch::cat({output.flatten(), input.grad().flatten(), convolution->weight.grad().flatten(),
                     convolution->bias.grad(), norm->weight.grad(), norm->bias.grad(),
                     norm->running_mean, norm->running_var})
      .detach();
}

class LibtorchKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_libtorch_kernels()) GTEST_SKIP() << "this build keeps libtorch's kernels";
  }
};

// docs/performance.md has the measurements; on x86-64 oneDNN is ahead with any number of threads,
// but for whole residual units on processors whose loops were measured.
TEST(DefaultKernels, AreOursOnArm64AndLibtorchsElsewhereButForResidualUnits) {
#if defined(__aarch64__)
  EXPECT_TRUE(has_libtorch_kernels());
  EXPECT_EQ(residual_unit_loops(), "");
#else
  EXPECT_FALSE(has_libtorch_kernels());
  EXPECT_EQ(residual_unit_order(), UnitOrder::kNone);
  const bool measured = std::string_view(tiles().name) == "avx2";
  EXPECT_EQ(residual_unit_loops(), measured ? "avx2" : "");
  const KernelScope ours(true);
  EXPECT_EQ(residual_unit_order(), measured ? UnitOrder::kChannelsLast : UnitOrder::kNone);
  {
    const KernelScope theirs(false);
    EXPECT_EQ(residual_unit_order(), UnitOrder::kNone);
  }
  EXPECT_EQ(residual_unit_order(), measured ? UnitOrder::kChannelsLast : UnitOrder::kNone);
  EXPECT_FALSE(uses_libtorch_kernels());
#endif
}

TEST_F(LibtorchKernels, TakeThePlaceOfLibtorchsWithTheSameResult) {
  const auto theirs = run_network();
  at::Tensor ours;
  {
    const KernelScope scope(true);
    EXPECT_TRUE(uses_libtorch_kernels());
    EXPECT_FALSE(at::globalContext().userEnabledMkldnn());
    ours = run_network();
  }
  EXPECT_TRUE(torch::allclose(ours, theirs, 1e-3, 1e-3));
  // Sums in another order: were they equal, ours would not have run.
  EXPECT_FALSE(torch::equal(ours, theirs));
  EXPECT_FALSE(uses_libtorch_kernels());
  EXPECT_TRUE(torch::equal(run_network(), theirs));
}

TEST_F(LibtorchKernels, OfTwoThreadsThatChooseOtherwiseTakeTurns) {
  const auto run_with = [](bool ours) {
    const KernelScope scope(ours);
    EXPECT_EQ(uses_libtorch_kernels(), ours);
    return run_network();
  };
  const auto ours = run_with(true);
  const auto theirs = run_with(false);
  const auto expect_always = [&](bool choice, const at::Tensor& wanted) {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(torch::equal(run_with(choice), wanted)) << i;
  };
  at::set_num_threads(1);
  std::jthread other([&] { expect_always(false, theirs); });
  expect_always(true, ours);
}

TEST_F(LibtorchKernels, OfOneThreadAreNotChosenTwice) {
  const KernelScope outer(true);
  EXPECT_NO_THROW(KernelScope(true));
  EXPECT_THROW(KernelScope(false), FailedPrecondition);
  EXPECT_TRUE(uses_libtorch_kernels());
}

TEST_F(LibtorchKernels, GiveOneResultForAnyNumberOfThreads) {
  const KernelScope ours(true);
  at::set_num_threads(1);
  const auto one = run_network();
  at::set_num_threads(3);
  EXPECT_TRUE(torch::equal(run_network(), one));
  at::set_num_threads(1);
}

TEST_F(LibtorchKernels, LeaveOtherTypesToLibtorch) {
  const KernelScope ours(true);
  const auto x = torch::randn({2, 3, 5, 5}, torch::kDouble);
  const auto w = torch::randn({4, 3, 3, 3}, torch::kDouble);
  EXPECT_EQ(at::conv2d(x, w).scalar_type(), torch::kDouble);
  EXPECT_EQ(std::get<0>(at::max_pool2d_with_indices(x, {2, 2})).scalar_type(), torch::kDouble);
  EXPECT_EQ(torch::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false).scalar_type(),
            torch::kDouble);
}

TEST_F(LibtorchKernels, GiveBackTheUsersChoiceOfOneDnn) {
  at::globalContext().setUserEnabledMkldnn(false);
  { const KernelScope ours(true); }
  EXPECT_FALSE(at::globalContext().userEnabledMkldnn());
  at::globalContext().setUserEnabledMkldnn(true);
  { const KernelScope ours(true); }
  EXPECT_TRUE(at::globalContext().userEnabledMkldnn());
}

TEST_F(LibtorchKernels, LeaveErrorsToLibtorch) {
  const KernelScope ours(true);
  EXPECT_THROW(at::conv2d(torch::randn({2, 3, 5, 5}), torch::randn({4, 2, 3, 3})), c10::Error);
}

}  // namespace
}  // namespace muster::kernels
