#include "muster/nn/kernels/gemm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace muster::kernels {
namespace {

struct Sizes {
  std::int64_t m, n, k;
};

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& into = {}) {
  at::Tensor c = into.defined() ? into.clone() : torch::full({a.size(0), b.size(1)}, NAN);
  gemm(a.size(0), b.size(1), a.size(1), {a.data_ptr<float>(), a.stride(0), a.stride(1)},
       {b.data_ptr<float>(), b.stride(0), b.stride(1)}, c.data_ptr<float>(), c.stride(0),
       into.defined() ? Into::kAdd : Into::kReplace);
  return c;
}

// Edges of tiles and of blocks of depth, single rows, and shapes of real layers.
constexpr Sizes kProductShapes[] = {{1, 1, 1},     {8, 12, 4},     {7, 13, 257},  {9, 11, 256},
                                    {40, 100, 66}, {193, 25, 300}, {3, 500, 600}, {129, 1, 512}};

TEST(Gemm, MultipliesLikeDoublePrecision) {
  torch::manual_seed(1);
  for (const auto& [m, n, k] : kProductShapes) {
    const auto a = torch::randn({m, k});
    const auto b = torch::randn({k, n});
    const auto wanted = torch::mm(a.to(torch::kDouble), b.to(torch::kDouble)).to(torch::kFloat);
    EXPECT_TRUE(torch::allclose(product(a, b), wanted, 1e-4, 1e-4)) << m << " " << n << " " << k;
  }
}

TEST(Gemm, TakesTransposedMatricesWithTheSameBits) {
  torch::manual_seed(2);
  for (const auto& [m, n, k] : kProductShapes) {
    const auto a = torch::randn({m, k});
    const auto b = torch::randn({k, n});
    const auto wanted = product(a, b);
    EXPECT_TRUE(torch::equal(product(a.t().contiguous().t(), b.t().contiguous().t()), wanted))
        << m << " " << n << " " << k;
  }
}

TEST(Gemm, AddsToWhatIsThere) {
  torch::manual_seed(3);
  const auto a = torch::randn({17, 300});
  const auto b = torch::randn({300, 29});
  const auto c = torch::randn({17, 29});
  EXPECT_TRUE(torch::allclose(product(a, b, c), c + torch::mm(a, b), 1e-4, 1e-4));
}

TEST(Gemm, WithoutDepthIsZero) {
  EXPECT_TRUE(
      torch::equal(product(torch::empty({2, 0}), torch::empty({0, 3})), torch::zeros({2, 3})));
}

TEST(Gemm, GivesTheSameBitsForAnyNumberOfThreads) {
  torch::manual_seed(4);
  const auto wide = torch::randn({130, 700});
  const auto tall = torch::randn({700, 515});
  at::set_num_threads(1);
  const auto one = product(wide, tall);
  const auto one_turned = product(tall.t().contiguous(), wide.t().contiguous());
  for (const int threads : {2, 3, 4}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(torch::equal(product(wide, tall), one)) << threads;
    EXPECT_TRUE(torch::equal(product(tall.t().contiguous(), wide.t().contiguous()), one_turned))
        << threads;
  }
  at::set_num_threads(1);
}

}  // namespace
}  // namespace muster::kernels
