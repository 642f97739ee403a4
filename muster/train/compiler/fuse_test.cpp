#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "muster/train/compiler/fused_kernel.h"
#include "muster/train/compiler/interpreter.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/recorder.h"

namespace muster::compiler {
namespace {

using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

struct Fused {
  Graph before;
  Graph after;
};

Fused fused(const Step& step, const Tensors& inputs) {
  Recording recording = record(step, inputs);
  EXPECT_EQ(recording.obstacle, "");
  for (const KeptMemory& kept : recording.changed) kept.restore();
  Fused both{recording.graph, recording.graph};
  rewrite(both.after, {.fuses = true});
  return both;
}

void expect_close(const Fused& both, const Tensors& inputs, double tolerance,
                  const Tensors& changed = {}) {
  const auto run = [&](const Graph& graph) {
    Tensors kept;
    for (const at::Tensor& one : changed) kept.push_back(one.clone());
    Tensors all = Interpreter(graph).run(inputs);
    for (std::size_t i = 0; i < changed.size(); ++i) {
      all.push_back(changed[i].clone());
      changed[i].copy_(kept[i]);
    }
    return all;
  };
  const Tensors wanted = run(both.before);
  const Tensors ours = run(both.after);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(
        at::allclose(ours[i].to(at::kFloat), wanted[i].to(at::kFloat), tolerance, tolerance))
        << "value " << i << ", off by "
        << (ours[i].to(at::kFloat) - wanted[i].to(at::kFloat)).abs().max();
  }
}

TEST(Fuse, AChainIsOneProgram) {
  const auto both = fused(
      [](const Tensors& in) { return Tensors{torch::gelu(in[0] * 0.5 + in[1]).to(at::kBFloat16)}; },
      {torch::randn({4, 6}), torch::randn({6})});
  ASSERT_EQ(both.after.nodes.size(), 1U);
  EXPECT_THAT(both.after.nodes[0].name(), HasSubstr("add.Tensor, gelu, _to_copy"));
  expect_close(both, {torch::randn({4, 6}), torch::randn({6})}, 1e-2);
}

TEST(Fuse, WhatOthersReadIsAlsoWritten) {
  const auto both = fused(
      [](const Tensors& in) {
        const auto x = torch::tanh(in[0]);
        return Tensors{torch::relu(x) + 1, x.mm(x)};
      },
      {torch::randn({4, 4})});
  EXPECT_EQ(both.after.nodes.size(), 2U);
  expect_close(both, {torch::randn({4, 4})}, 1e-6);
}

TEST(Fuse, ATransposedReaderStaysAlone) {
  const auto both =
      fused([](const Tensors& in) { return Tensors{(torch::exp(in[0]).t() + in[1]).contiguous()}; },
            {torch::randn({4, 6}), torch::randn({6, 4})});
  expect_close(both, {torch::randn({4, 6}), torch::randn({6, 4})}, 1e-6);
}

TEST(Fuse, WhatIsChangedInBetweenIsReadBefore) {
  const auto w = torch::randn({8});
  const auto both = fused(
      [&](const Tensors& in) {
        const auto before = w * 2;
        w.add_(in[0]);
        return Tensors{before + in[0]};
      },
      {torch::randn({8})});
  expect_close(both, {torch::randn({8})}, 1e-6, {w});
}

TEST(Fuse, BiasGradientsAreAddedUpWhereTheirElementsAreMade) {
  const auto place = torch::zeros({32});
  const auto both = fused(
      [&](const Tensors& in) {
        const auto gradient = at::gelu_backward(in[0], in[1]);
        place.copy_(gradient.sum(at::IntArrayRef({0, 1})));
        return Tensors{gradient};
      },
      {torch::randn({5, 40, 32}), torch::randn({5, 40, 32})});
  ASSERT_EQ(both.after.nodes.size(), 2U);
  EXPECT_THAT(both.after.nodes[0].name(), HasSubstr("gelu_backward, sum; sums of columns"));
  EXPECT_THAT(both.after.nodes[1].name(), HasSubstr("sum, copy_; columns"));
  expect_close(both, {torch::randn({5, 40, 32}), torch::randn({5, 40, 32})}, 1e-4, {place});
}

// Forward and backward, with the residual sum and what comes behind it.
Tensors normalised(const torch::nn::BatchNorm2d& norm, const Tensors& in) {
  const auto x = in[0].detach().requires_grad_();
  const auto y = torch::relu(torch::nn::BatchNorm2d(norm)(x) + in[1]);
  (y * in[2]).sum().backward();
  return {y.detach(), x.grad(), norm->weight.grad(), norm->bias.grad()};
}

TEST(Fuse, BatchNormOfChannelsLastIsThreeProgramsEachWay) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    torch::nn::BatchNorm2d norm(6);
    norm->weight.mutable_grad() = torch::zeros({6});
    norm->bias.mutable_grad() = torch::zeros({6});
    const auto make = [&] {
      return (torch::randn({4, 6, 5, 5}) + 3).to(type).contiguous(at::MemoryFormat::ChannelsLast);
    };
    const Tensors inputs{make(), make(), make()};
    const auto both = fused([&](const Tensors& in) { return normalised(norm, in); }, inputs);
    const auto names = to_text(both.after);
    EXPECT_THAT(names, testing::Not(HasSubstr("aten::native_batch_norm")));
    EXPECT_THAT(names, HasSubstr("batch_norm, add.Tensor, relu"));
    const Tensors changed{norm->running_mean, norm->running_var, norm->weight.grad(),
                          norm->bias.grad()};
    expect_close(both, inputs, type == at::kFloat ? 2e-4 : 0.1, changed);
  }
}

TEST(Fuse, PoolingOfChannelsLastKeepsPlacesAsBytes) {
  const auto step = [](const Tensors& in) {
    const auto x = in[0].detach().requires_grad_();
    const auto y = torch::max_pool2d(x, 3, 2, 1);
    (y * in[1]).sum().backward();
    return Tensors{y.detach(), x.grad()};
  };
  const auto last = at::MemoryFormat::ChannelsLast;
  const Tensors inputs{torch::randn({2, 8, 9, 9}).contiguous(last),
                       torch::randn({2, 8, 5, 5}).contiguous(last)};
  const auto both = fused(step, inputs);
  EXPECT_THAT(to_text(both.after), HasSubstr("max_pool_backward(3 x 3, by 2)"));
  expect_close(both, inputs, 1e-6);
}

TEST(Fuse, BatchNormOfALargeMeanKeepsItsDigits) {
  torch::nn::BatchNorm1d norm(8);
  const auto x = torch::randn({256, 8}) * 0.01 + 1000;
  const torch::NoGradGuard no_grad;
  const auto both = fused([&](const Tensors& in) { return Tensors{norm(in[0])}; }, {x});
  const auto wide = x.to(at::kDouble);
  const auto wanted = (wide - wide.mean(0)) / (wide.var(0, false) + 1e-5).sqrt();
  const auto ours = Interpreter(both.after).run({x})[0];
  EXPECT_TRUE(at::allclose(ours.to(at::kDouble), wanted, 0.02, 0.02))
      << (ours - wanted).abs().max();
}

}  // namespace
}  // namespace muster::compiler
