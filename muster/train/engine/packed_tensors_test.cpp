#include "muster/train/engine/packed_tensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace muster {
namespace {

TEST(PackedTensors, HasAPlaceForEachOfItsTypeAndShape) {
  const std::vector<at::Tensor> like{at::zeros({3}), at::zeros({}, at::kLong),
                                     at::zeros({2, 5}, at::kByte), at::zeros({0})};
  const PackedTensors packed(like, at::kCPU);
  ASSERT_EQ(packed.tensors().size(), like.size());
  for (std::size_t i = 0; i < like.size(); ++i) {
    EXPECT_EQ(packed.tensors()[i].sizes(), like[i].sizes());
    EXPECT_EQ(packed.tensors()[i].scalar_type(), like[i].scalar_type());
    packed.tensors()[i].fill_(static_cast<int>(i) + 1);
  }
  // No tensor's place is another's.
  EXPECT_TRUE(packed.tensors()[0].equal(at::full({3}, 1.0F)));
  EXPECT_EQ(packed.tensors()[1].item<std::int64_t>(), 2);
  EXPECT_TRUE(packed.tensors()[2].equal(at::full({2, 5}, 3, at::kByte)));
}

TEST(PackedTensors, OneCopyOfTheMemoryBringsAll) {
  const std::vector<at::Tensor> like{at::zeros({7}), at::zeros({}, at::kLong)};
  const PackedTensors from(like, at::kCPU);
  const PackedTensors to(like, at::kCPU);
  from.tensors()[0].copy_(at::arange(7, at::kFloat));
  from.tensors()[1].fill_(9);
  to.memory().copy_(from.memory());
  EXPECT_TRUE(to.tensors()[0].equal(at::arange(7, at::kFloat)));
  EXPECT_EQ(to.tensors()[1].item<std::int64_t>(), 9);
}

TEST(CopyTensors, CopiesEachIntoTheOneAtItsPlace) {
  const std::vector<at::Tensor> from{at::arange(3, at::kFloat), at::full({2}, 4, at::kLong)};
  const std::vector<at::Tensor> to{at::zeros({3}), at::zeros({2}, at::kLong)};
  copy_tensors(from, to);
  EXPECT_TRUE(to[0].equal(from[0]));
  EXPECT_TRUE(to[1].equal(from[1]));
  copy_tensors({}, {});
}

}  // namespace
}  // namespace muster
