#include "muster/train/engine/gradient_buckets.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace muster {
namespace {

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

Ranges pieces_of(std::vector<std::int64_t> sizes) {
  std::vector<VariableSpec> specs;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    specs.push_back({.name = "v" + std::to_string(i), .shape = {sizes[i]}});
  }
  Ranges ranges;
  for (const FlatRange& piece : gradient_buckets(Variables(std::move(specs)))) {
    ranges.emplace_back(piece.first, piece.last);
  }
  return ranges;
}

constexpr std::int64_t kLeast = kLeastGradientPiece;

TEST(GradientBuckets, AreWholeVariablesFromTheEnd) {
  EXPECT_EQ(pieces_of({10, 20}), (Ranges{{0, 48}}));
  EXPECT_EQ(
      pieces_of({kLeast / 4, kLeast / 2, kLeast / 2, kLeast, kLeast / 4}),
      (Ranges{{5 * kLeast / 4, 5 * kLeast / 2}, {kLeast / 4, 5 * kLeast / 4}, {0, kLeast / 4}}));
}

TEST(GradientBuckets, AreFewOfManyVariables) {
  const Ranges pieces = pieces_of(std::vector<std::int64_t>(640, kLeast / 4));
  ASSERT_EQ(pieces.size(), 8U);
  for (const auto& [first, last] : pieces) EXPECT_EQ(last - first, 20 * kLeast);
}

TEST(GradientBuckets, OfNothingAreNone) { EXPECT_TRUE(pieces_of({}).empty()); }

/// Four layers, each a piece.
struct Layers {
  torch::nn::Sequential model;
  std::optional<Variables> variables;
  std::optional<AttachedModule> attached;
  std::optional<GradientBuckets> pieces;

  Layers() {
    for (int i = 0; i < 4; ++i) {
      const std::int64_t in = i % 2 == 0 ? 512 : kLeast / 512;
      model->push_back(torch::nn::Linear(torch::nn::LinearOptions(in, kLeast / in).bias(false)));
    }
    variables.emplace(Variables::adopt(*model));
    attached.emplace(variables->attach(model.ptr()));
    pieces.emplace(*variables, *attached, c10::Device(c10::kCPU));
  }

  // Through these layers in turn; how many pieces were whole when backward came by each of them,
  // from the last to the first.
  std::vector<std::size_t> train(const std::vector<std::size_t>& layers) {
    std::vector<std::size_t> seen;
    attached->zero();
    pieces->begin();
    at::Tensor values = torch::ones({1, layers.front() % 2 == 0 ? 512 : kLeast / 512});
    for (const std::size_t layer : layers) {
      values = model[layer]->as<torch::nn::Linear>()->forward(values);
      values.register_hook([&](const at::Tensor&) { seen.push_back(pieces->whole()); });
    }
    values.sum().backward();
    seen.push_back(pieces->whole());
    pieces->end(attached->collect());
    return seen;
  }
};

TEST(GradientBuckets, AreWholeOneAfterTheOther) {
  Layers layers;
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(layers.train({0, 1, 2, 3}), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  }
  // Nothing of a step stays behind.
  for (const at::Tensor& parameter : layers.attached->dense_parameters()) {
    EXPECT_TRUE(torch::autograd::impl::grad_accumulator(parameter)->post_hooks().empty());
  }
}

TEST(GradientBuckets, WaitForThoseThatAreUsedAgain) {
  // Libtorch adds up the parts of a parameter that is used twice, and then adds them.
  EXPECT_EQ(Layers().train({3, 0, 1, 2, 3}), (std::vector<std::size_t>{0, 0, 1, 2, 3, 4}));
}

TEST(GradientBuckets, MayNotComeAtAll) {
  EXPECT_EQ(Layers().train({0, 3}), (std::vector<std::size_t>{0, 1, 2}));
}

TEST(GradientBuckets, HearOfGradientsThatANodeAdded) {
  Layers layers;
  layers.attached->zero();
  layers.pieces->begin();
  const auto parameters = layers.attached->dense_parameters();
  layers.pieces->added_gradient(parameters[3]);
  EXPECT_EQ(layers.pieces->whole(), 1U);
  layers.pieces->added_gradient(parameters[3]);
  EXPECT_EQ(layers.pieces->whole(), 1U);
  layers.pieces->added_gradient(torch::ones({1}));
  EXPECT_EQ(layers.pieces->whole(), 1U);
  layers.pieces->added_gradient(parameters[0]);
  EXPECT_EQ(layers.pieces->whole(), 2U);
  layers.pieces->end(/*were_moved=*/false);
}

}  // namespace
}  // namespace muster
