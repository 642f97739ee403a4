#include "muster/nn/model/recompute.h"

#include <ATen/ops/from_blob.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/nn/model/dropout.h"
#include "muster/nn/model/random_scope.h"
#include "muster/nn/model/seeded_module.h"
#include "muster/testing/message_of.h"

namespace muster::recompute_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kWidth = 16, kRows = 6, kBlocks = 3;

/// Bytes of values that blocks have made and that are still there.
std::int64_t live_bytes = 0;
std::int64_t most_live_bytes = 0;

at::Tensor counted(const at::Tensor& shaped_as) {
  auto memory = std::make_shared<std::vector<float>>(static_cast<std::size_t>(shaped_as.numel()));
  const auto bytes = static_cast<std::int64_t>(memory->size() * sizeof(float));
  most_live_bytes = std::max(most_live_bytes, live_bytes += bytes);
  return at::from_blob(
      memory->data(), shaped_as.sizes(), [memory, bytes](void*) { live_bytes -= bytes; },
      at::kFloat);
}

/// Batch norm, dropout and an input that has no gradient.
struct Block : torch::nn::Module, Recomputable {
  Block() {
    wide = register_module("wide", torch::nn::Linear(kWidth, kWidth));
    norm = register_module("norm", torch::nn::BatchNorm1d(kWidth));
    dropout = register_module("dropout", std::make_shared<Dropout>(0.3));
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& added) {
    return recomputed(*this, {x, added, {}}, [this](auto inputs) {
      EXPECT_FALSE(inputs[2].defined());
      const at::Tensor y = dropout->forward(at::relu(norm->forward(wide->forward(inputs[0]))));
      at::Tensor noted = counted(y);
      noted.copy_(y);
      // Backward reads its factors.
      return noted * (inputs[0] + inputs[1]) * y;
    });
  }
  torch::nn::Linear wide{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  std::shared_ptr<Dropout> dropout;
};

struct Net : torch::nn::Module {
  Net() {
    for (std::int64_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(register_module("layers_" + std::to_string(i), std::make_shared<Block>()));
    }
  }
  at::Tensor forward(at::Tensor x, const at::Tensor& added) {
    for (const auto& block : blocks) x = block->forward(x, added);
    return x;
  }
  std::vector<std::shared_ptr<Block>> blocks;
};

/// The values, gradients and buffers after two steps, and the most bytes that were live.
struct Outcome {
  std::vector<at::Tensor> tensors{};
  std::int64_t bytes = 0;
};

Outcome train(const std::string& pattern, bool in_bfloat16 = false) {
  torch::manual_seed(5);
  const auto shared = std::make_shared<Net>();
  Net& net = *shared;
  seed_modules(net, 7);
  if (!pattern.empty()) recompute_modules(net, pattern);
  live_bytes = most_live_bytes = 0;
  Outcome outcome;
  const at::Tensor added = at::ones({kRows, kWidth});
  for (std::int64_t step = 0; step < 2; ++step) {
    at::Tensor x = at::arange(kRows * kWidth, at::kFloat).sin().view({kRows, kWidth});
    x.set_requires_grad(step == 1);
    const RandomScope random(/*seed=*/1, step, /*replica=*/0);
    at::Tensor loss;
    {
      const compat::AutocastScope autocast(in_bfloat16, at::kCPU, at::kBFloat16);
      loss = net.forward(x, added).to(at::kFloat).square().sum();
    }
    loss.backward();
    outcome.tensors.push_back(loss.detach());
    if (step == 1) outcome.tensors.push_back(x.grad());
  }
  for (const at::Tensor& parameter : net.parameters()) outcome.tensors.push_back(parameter.grad());
  for (const at::Tensor& buffer : net.buffers()) outcome.tensors.push_back(buffer);
  EXPECT_EQ(live_bytes, 0);
  outcome.bytes = most_live_bytes;
  return outcome;
}

void expect_same(const Outcome& one, const Outcome& other) {
  ASSERT_EQ(one.tensors.size(), other.tensors.size());
  for (std::size_t i = 0; i < one.tensors.size(); ++i) {
    EXPECT_TRUE(at::equal(one.tensors[i], other.tensors[i])) << i;
  }
}

TEST(Recompute, GivesTheSameBitsAndKeepsOneBlockAtATime) {
  const Outcome kept = train("");
  const Outcome again = train("layers_.*");
  expect_same(kept, again);
  EXPECT_EQ(kept.bytes, kBlocks * kRows * kWidth * 4);
  EXPECT_EQ(again.bytes, kRows * kWidth * 4);
  // Some of the blocks: what the first keeps is there while others are computed again.
  const Outcome mixed = train("layers_[12]");
  expect_same(kept, mixed);
  EXPECT_EQ(mixed.bytes, 2 * kRows * kWidth * 4);
}

TEST(Recompute, GivesTheSameBitsInBfloat16) {
  expect_same(train("", /*in_bfloat16=*/true), train(".*", /*in_bfloat16=*/true));
}

TEST(Recompute, IsForTrainingAlone) {
  Net net;
  recompute_modules(net, ".*");
  net.eval();
  const at::Tensor x = at::ones({kRows, kWidth});
  const at::Tensor y = net.forward(x, x);
  EXPECT_EQ(y.grad_fn()->name(), "MulBackward0");
}

TEST(Recompute, OfAPatternThatNamesNothingSaysWhatThereIs) {
  Net net;
  EXPECT_THAT(message_of([&] { recompute_modules(net, "blocks.*"); }),
              AllOf(HasSubstr("recompute \"blocks.*\" is the name of no module"),
                    HasSubstr("such are layers_0, layers_1, layers_2")));
  EXPECT_THAT(message_of([&] { recompute_modules(net, "layers_["); }),
              HasSubstr("is no regular expression"));
  torch::nn::Linear plain(2, 2);
  EXPECT_THAT(message_of([&] { recompute_modules(*plain, ".*"); }),
              HasSubstr("derive its blocks from muster::Recomputable"));
  EXPECT_EQ(recompute_modules(net, "layers_[12]"), 2U);
}

/// Draws from libtorch's generator.
struct LibtorchDropout : torch::nn::Module, Recomputable {
  LibtorchDropout() { dropout = register_module("dropout", torch::nn::Dropout(0.5)); }
  at::Tensor forward(const at::Tensor& x) {
    return recomputed(*this, {x}, [this](auto inputs) { return dropout->forward(inputs[0]); });
  }
  torch::nn::Dropout dropout{nullptr};
};

TEST(Recompute, RefusesLibtorchsGenerator) {
  LibtorchDropout block;
  block.set_recomputes(true);
  EXPECT_THAT(message_of([&] { block.forward(at::ones({4})); }),
              HasSubstr("use muster::Dropout in place of torch::nn::Dropout"));
}

}  // namespace
}  // namespace muster::recompute_test
