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

using ::testing::HasSubstr;
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

// Forward and backward, with the residual sum and what comes after it.
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
    // So far from zero that rounding decides about no element's ReLU.
    const auto residual = (make() - 3).sign() * 8;
    const Tensors inputs{make(), residual, make()};
    const auto both = fused([&](const Tensors& in) { return normalised(norm, in); }, inputs);
    const auto names = to_text(both.after);
    EXPECT_THAT(names, ::testing::Not(HasSubstr("aten::native_batch_norm")));
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

// The way back of a ReLU and a batch norm reads the gradient and the norm's input, and nothing that
// can be made of them.
TEST(Fuse, WhatIsMadeOfWhatAProgramReadsIsMadeAgain) {
  torch::nn::BatchNorm2d norm(8);
  norm->weight.mutable_grad() = torch::zeros({8});
  norm->bias.mutable_grad() = torch::zeros({8});
  const auto step = [&](const Tensors& in) {
    const auto x = in[0].detach().requires_grad_();
    const auto y = torch::relu(norm(x));
    (y * in[1]).sum().backward();
    return Tensors{y.detach(), x.grad()};
  };
  const auto make = [] {
    return torch::randn({4, 8, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  };
  const Tensors inputs{make(), make()};
  const auto both = fused(step, inputs);
  const ValueId y = *both.after.outputs[0];
  for (const Node& node : both.after.nodes) {
    const auto read = values_read(node);
    EXPECT_EQ(std::ranges::count(read, y), 0) << node.name();
    if (node.name().find("batch_norm_backward") == std::string::npos) continue;
    const auto full = std::ranges::count_if(read, [&](ValueId value) {
      return both.after.geometry(value).elements() == 800 && both.after.geometry(value).is_dense();
    });
    EXPECT_LE(full, 2) << node.name();
  }
  expect_close(both, inputs, 2e-4,
               {norm->running_mean, norm->running_var, norm->weight.grad(), norm->bias.grad()});
}

TEST(Fuse, WhatHasChangedSinceIsNotMadeAgain) {
  const auto v = torch::randn({40, 40});
  const auto both = fused(
      [&](const Tensors& in) {
        const auto x = v * 2;
        const auto y = x.mm(in[0]);
        v.add_(y);
        return Tensors{y, x + v};
      },
      {torch::randn({40, 40})});
  expect_close(both, {torch::randn({40, 40})}, 1e-5, {v});
}

TEST(Fuse, GradientsOfEmbeddingsAreWrittenWhereTheyBelong) {
  const auto table = torch::randn({7, 12});
  const auto flat = torch::zeros({7 * 12});
  const auto step = [&](const Tensors& in) {
    flat.zero_();
    auto place = flat.view({7, 12});
    const auto w = table.detach().requires_grad_();
    const auto y = torch::nn::functional::embedding(
        in[0], w, torch::nn::functional::EmbeddingFuncOptions().padding_idx(2));
    (y * in[1]).sum().backward();
    place.add_(w.grad());
    return Tensors{y.detach()};
  };
  const Tensors inputs{torch::randint(0, 7, {3, 5}, at::kLong), torch::randn({3, 5, 12})};
  Recording recording = record(step, inputs);
  for (const KeptMemory& kept : recording.changed) kept.restore();
  Fused both{recording.graph, recording.graph};
  rewrite(both.after, {.padding = 16, .fuses = true});
  EXPECT_THAT(to_text(both.after), HasSubstr("embedding_backward(15 words)"));
  EXPECT_THAT(to_text(both.after), ::testing::Not(HasSubstr("copy_")));
  expect_close(both, inputs, 1e-6, {flat});
}

// Forward and backward of a layer norm after a sum, as a residual block has it.
Tensors layer_normed(const torch::nn::LayerNorm& norm, const Tensors& in) {
  const auto x = in[0].detach().requires_grad_();
  const auto y = torch::nn::LayerNorm(norm)(x + in[1]);
  (y * in[2]).sum().backward();
  return {y.detach(), x.grad(), norm->weight.grad(), norm->bias.grad()};
}

TEST(Fuse, LayerNormIsAProgramOverRowsEachWay) {
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({24}));
  torch::nn::init::uniform_(norm->weight, 0.5, 1.5);
  norm->weight.mutable_grad() = torch::zeros({24});
  norm->bias.mutable_grad() = torch::zeros({24});
  const auto make = [] { return torch::randn({3, 20, 24}) + 2; };
  const Tensors inputs{make(), make(), make()};
  const auto both = fused([&](const Tensors& in) { return layer_normed(norm, in); }, inputs);
  const auto names = to_text(both.after);
  EXPECT_THAT(names, ::testing::Not(HasSubstr("aten::native_layer_norm")));
  EXPECT_THAT(names, HasSubstr("add.Tensor, layer_norm"));
  EXPECT_THAT(names, HasSubstr("; rows [60, 24]"));
  expect_close(both, inputs, 2e-4, {norm->weight.grad(), norm->bias.grad()});
}

TEST(Fuse, SoftmaxAndItsLogarithmAreProgramsOverRows) {
  const auto step = [](const Tensors& in) {
    const auto x = in[0].detach().requires_grad_();
    ((torch::softmax(x, -1) + torch::log_softmax(x, -1)) * in[1]).sum().backward();
    return Tensors{torch::softmax(x, -1).detach(), x.grad()};
  };
  const Tensors inputs{torch::randn({5, 7, 33}) * 20, torch::randn({5, 7, 33})};
  const auto both = fused(step, inputs);
  EXPECT_THAT(to_text(both.after), ::testing::Not(HasSubstr("aten::_softmax")));
  EXPECT_THAT(to_text(both.after), ::testing::Not(HasSubstr("aten::_log_softmax")));
  expect_close(both, inputs, 1e-4);
}

TEST(Fuse, ARowThatIsTooLongStaysWithLibtorch) {
  const auto both = fused([](const Tensors& in) { return Tensors{torch::softmax(in[0], -1)}; },
                          {torch::randn({2, 9000})});
  EXPECT_THAT(to_text(both.after), HasSubstr("aten::_softmax"));
}

// Decay, momentum and update, as an optimizer makes them in place.
TEST(Fuse, ChangesOfMemoryOneAfterTheOtherAreOneProgram) {
  const auto w = torch::randn({40});
  const auto momentum = torch::randn({40});
  const auto gradient = torch::randn({40});
  const auto both = fused(
      [&](const Tensors& in) {
        gradient.mul_(in[0].narrow(0, 0, 1));
        gradient.add_(w, 0.1);
        momentum.mul_(0.9).add_(gradient);
        w.add_(momentum, -0.5);
        return Tensors{};
      },
      {torch::randn({40})});
  ASSERT_EQ(both.after.nodes.size(), 1U) << to_text(both.after);
  expect_close(both, {torch::randn({40})}, 1e-6, {w, momentum, gradient});
}

TEST(Fuse, AChangeOfNeighboursStaysBehindTheirReader) {
  const auto w = torch::randn({41});
  const auto both = fused(
      [&](const Tensors& in) {
        w.narrow(0, 0, 40).mul_(in[0]);
        w.narrow(0, 1, 40).add_(in[0]);
        return Tensors{w.narrow(0, 0, 40) * 2};
      },
      {torch::randn({40})});
  EXPECT_GE(both.after.nodes.size(), 2U);
  expect_close(both, {torch::randn({40})}, 1e-6, {w});
}

}  // namespace
}  // namespace muster::compiler
