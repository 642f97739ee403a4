#include "muster/saved_model/executor/recycled_tensors_internal.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace muster::executor {
namespace {

TEST(RecycledTensors, AreUsedAgainInAnotherShape) {
  at::Tensor first = recycled({2, 3}, at::kFloat);
  const void* const memory = first.data_ptr();
  recycle(std::move(first));
  const at::Tensor second = recycled({5}, at::kFloat);
  EXPECT_EQ(second.data_ptr(), memory);
  EXPECT_EQ(second.sizes(), at::IntArrayRef({5}));
  EXPECT_TRUE(second.is_contiguous());
  EXPECT_EQ(second.storage().nbytes(), 5 * sizeof(float));
  EXPECT_EQ(second.numel(), 5);
}

TEST(RecycledTensors, WhatIsHeldElsewhereIsNotUsedAgain) {
  at::Tensor tensor = recycled({4}, at::kLong);
  tensor.fill_(7);
  const at::Tensor held = tensor;
  recycle(std::move(tensor));
  recycled({4}, at::kLong).fill_(8);
  EXPECT_TRUE(held.eq(7).all().item<bool>());
}

TEST(RecycledTensors, MemoryOfAViewIsNotUsedAgain) {
  at::Tensor tensor = recycled({4}, at::kLong);
  tensor.fill_(7);
  at::Tensor view = tensor.slice(0, 1, 3);
  recycle(std::move(tensor));
  recycled({4}, at::kLong).fill_(8);
  EXPECT_TRUE(view.eq(7).all().item<bool>());
  // Nor is a view that has the memory for itself now.
  const void* const memory = view.storage().data();
  recycle(std::move(view));
  EXPECT_NE(recycled({4}, at::kLong).data_ptr(), memory);
}

TEST(RecycledTensors, LetGoOfTensorsOfOthers) {
  at::Tensor other = at::ones({3});
  const void* const memory = other.data_ptr();
  recycle(std::move(other));
  EXPECT_NE(recycled({3}, at::kFloat).data_ptr(), memory);
  recycle(at::Tensor());
}

TEST(RecycledTensors, AreOfFewBytesAndOfCommonTypes) {
  EXPECT_FALSE(recycled({1 << 20}, at::kFloat).defined());
  EXPECT_FALSE(recycled({1 << 20, 1 << 20, 1 << 20, 1 << 20}, at::kFloat).defined());
  EXPECT_FALSE(recycled({-1}, at::kFloat).defined());
  EXPECT_FALSE(recycled({1}, at::kHalf).defined());
  EXPECT_EQ(recycled({0, 3}, at::kBool).numel(), 0);
  EXPECT_EQ(recycled({}, at::kInt).dim(), 0);
}

TEST(RecycledTensors, AThreadKeepsNoMoreThanItMay) {
  std::vector<at::Tensor> many;
  for (int i = 0; i < 1000; ++i) many.push_back(recycled({4000}, at::kFloat));
  for (auto& tensor : many) recycle(std::move(tensor));
  std::size_t kept = 0;
  for (const auto& tensor : many) kept += tensor.defined() ? 0 : 1;  // NOLINT: only kept ones moved
  EXPECT_LE(kept * 16384, most_recycled_bytes());
  EXPECT_GT(kept, 0U);
}

}  // namespace
}  // namespace muster::executor
