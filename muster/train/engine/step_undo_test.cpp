#include "muster/train/engine/step_undo.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace muster {
namespace {

TEST(StepUndo, RestoresWhatTensorsHad) {
  const at::Tensor flat = at::arange(10, at::kFloat);
  const at::Tensor count = at::full({}, 7, at::kLong);
  const at::Tensor flags = at::full({3}, 1, at::kByte);
  StepUndo kept({flat, count, flags});
  kept.keep_on_host();
  flat.add_(1);
  count.fill_(8);
  flags.fill_(0);
  kept.restore();
  EXPECT_TRUE(flat.equal(at::arange(10, at::kFloat)));
  EXPECT_EQ(count.item<std::int64_t>(), 7);
  EXPECT_TRUE(flags.equal(at::full({3}, 1, at::kByte)));
}

TEST(StepUndo, KeepsTheLastValuesThatItWasToldToKeep) {
  const at::Tensor value = at::full({2}, 1.0F);
  StepUndo kept({value});
  value.fill_(2);
  kept.keep_on_host();
  value.fill_(3);
  kept.restore();
  EXPECT_TRUE(value.equal(at::full({2}, 2.0F)));
}

TEST(StepUndo, KeepsMemoryOfWhichTensorsArePartsWhole) {
  const at::Tensor flat = at::arange(8, at::kFloat);
  StepUndo kept({flat.narrow(0, 0, 3), flat.narrow(0, 3, 2).view({2, 1})});
  kept.keep_on_host();
  flat.zero_();
  kept.restore();
  EXPECT_TRUE(flat.equal(at::arange(8, at::kFloat)));
}

}  // namespace
}  // namespace muster
