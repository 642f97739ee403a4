#include "muster/nn/kernels/batch_norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace muster::kernels {
namespace {

const std::vector<std::vector<std::int64_t>> kNormShapes{
    {5, 3, 4, 7}, {128, 130}, {9, 65, 1, 1}, {3, 2, 17}, {1, 4, 3, 3}};

TEST(BatchNorm, GivesTheOutputStatisticsAndGradientsOfLibtorchInDoublePrecision) {
  torch::manual_seed(1);
  for (const auto& shape : kNormShapes) {
    const std::int64_t channels = shape[1];
    const auto x = torch::randn(shape) * 3 + 100;
    const auto weight = torch::rand({channels}) + 0.5, bias = torch::randn({channels});
    const auto mean = torch::randn({channels}), variance = torch::rand({channels}) + 1;

    const auto to_double = [](const at::Tensor& t) { return t.to(torch::kDouble); };
    const auto x64 = to_double(x).requires_grad_(true);
    const auto weight64 = to_double(weight).requires_grad_(true);
    const auto bias64 = to_double(bias).requires_grad_(true);
    const auto mean64 = to_double(mean), variance64 = to_double(variance);
    const auto wanted =
        torch::batch_norm(x64, weight64, bias64, mean64, variance64, true, 0.1, 1e-3, false);

    const auto [y, saved_mean, inverse] = batch_norm(x, weight, bias, mean, variance, 0.1, 1e-3);
    EXPECT_TRUE(torch::allclose(to_double(y), wanted, 1e-4, 1e-4)) << x.sizes();
    EXPECT_TRUE(torch::allclose(to_double(mean), mean64, 1e-5, 1e-5)) << x.sizes();
    EXPECT_TRUE(torch::allclose(to_double(variance), variance64, 1e-4, 1e-5)) << x.sizes();

    const auto gradient = torch::randn(shape);
    wanted.backward(to_double(gradient));
    const auto [dx, dw, db] =
        batch_norm_backward(gradient, x, weight, saved_mean, inverse, {true, true, true});
    EXPECT_TRUE(torch::allclose(to_double(dx), x64.grad(), 1e-3, 1e-4)) << x.sizes();
    EXPECT_TRUE(torch::allclose(to_double(dw), weight64.grad(), 1e-3, 1e-3)) << x.sizes();
    EXPECT_TRUE(torch::allclose(to_double(db), bias64.grad(), 1e-4, 1e-4)) << x.sizes();
  }
}

TEST(BatchNorm, WorksWithoutWeightsAndRunningStatistics) {
  const auto x = torch::randn({6, 3, 2, 2});
  const auto [y, mean, inverse] = batch_norm(x, {}, {}, {}, {}, 0.1, 1e-5);
  EXPECT_TRUE(
      torch::allclose(y, torch::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false), 1e-4, 1e-5));
  const auto [dx, dw, db] = batch_norm_backward(y, x, {}, mean, inverse, {true, false, false});
  EXPECT_TRUE(dx.defined());
  EXPECT_FALSE(dw.defined() || db.defined());
}

// libtorch's own changes bits with the number of threads for [batch, channels].
TEST(BatchNorm, GivesTheSameBitsForAnyNumberOfThreads) {
  torch::manual_seed(2);
  for (const auto& shape : kNormShapes) {
    const auto x = torch::randn(shape), gradient = torch::randn(shape);
    const auto run = [&] {
      const auto [y, mean, inverse] = batch_norm(x, {}, {}, {}, {}, 0.1, 1e-5);
      const auto [dx, dw, db] =
          batch_norm_backward(gradient, x, {}, mean, inverse, {true, true, true});
      return torch::cat({y.flatten(), mean, inverse, dx.flatten(), dw, db});
    };
    at::set_num_threads(1);
    const auto one = run();
    for (const int threads : {2, 3}) {
      at::set_num_threads(threads);
      EXPECT_TRUE(torch::equal(run(), one)) << x.sizes() << " " << threads;
    }
    at::set_num_threads(1);
  }
}

}  // namespace
}  // namespace muster::kernels
