#include "muster/nn/kernels/max_pool.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace muster::kernels {
namespace {

TEST(MaxPool, GivesTheValuesAndIndicesOfLibtorch) {
  torch::manual_seed(1);
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{
           {2, 3, 8, 8}, {1, 2, 7, 5}, {3, 40, 2, 2}, {1, 1, 3, 2}}) {
    // Few different values, so that there are equals.
    const auto x = torch::randint(0, 3, shape).to(torch::kFloat);
    const auto [wanted, places] = torch::max_pool2d_with_indices(x, {2, 2});
    const auto [values, indices] = max_pool_2x2(x);
    EXPECT_TRUE(torch::equal(values, wanted)) << x.sizes();
    EXPECT_TRUE(torch::equal(indices, places)) << x.sizes();
  }
}

TEST(MaxPool, LetsNanThrough) {
  auto x = torch::zeros({1, 1, 2, 4});
  x[0][0][0][1] = NAN;
  const auto [values, indices] = max_pool_2x2(x);
  EXPECT_TRUE(std::isnan(values[0][0][0][0].item<float>()));
  EXPECT_EQ(indices[0][0][0][0].item<std::int64_t>(), 1);
  EXPECT_EQ(values[0][0][0][1].item<float>(), 0.0F);
}

TEST(MaxPool, TakesChannelsThatLieSideBySide) {
  torch::manual_seed(1);
  const auto x = torch::randn({2, 7, 9, 5});
  const auto first = x.permute({0, 3, 1, 2});
  const auto whole = max_pool_channels_last(
      x, {.window = {2, 3}, .stride = {2, 1}, .before = {0, 0}, .outputs = {3, 7}});
  EXPECT_TRUE(whole.permute({0, 3, 1, 2}).equal(torch::max_pool2d(first, {2, 3}, {2, 1})));
  // A row above and a column on each side count for nothing.
  const auto around = max_pool_channels_last(
      x, {.window = {3, 3}, .stride = {2, 2}, .before = {1, 1}, .outputs = {4, 5}});
  EXPECT_TRUE(around.permute({0, 3, 1, 2}).equal(torch::max_pool2d(first, 3, 2, 1)));
}

TEST(MaxPool, LetsNanThroughSideBySide) {
  auto x = torch::zeros({1, 2, 2, 3});
  x[0][1][0][1] = NAN;
  const auto y = max_pool_channels_last(x, {.window = {2, 2}, .stride = {2, 2}, .outputs = {1, 1}});
  EXPECT_EQ(y[0][0][0][0].item<float>(), 0.0F);
  EXPECT_TRUE(std::isnan(y[0][0][0][1].item<float>()));
}

}  // namespace
}  // namespace muster::kernels
