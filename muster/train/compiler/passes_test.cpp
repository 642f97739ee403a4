#include "muster/train/compiler/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "muster/train/compiler/interpreter.h"
#include "muster/train/compiler/networks_internal.h"
#include "muster/train/compiler/recorder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

using networks::Network;
using networks::Trained;
using testing::Contains;
using testing::Not;
using Tensors = std::vector<at::Tensor>;

std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> all;
  for (const Node& node : graph.nodes) all.push_back(node.name());
  return all;
}

std::ptrdiff_t count_of(const Graph& graph, const std::string& name) {
  return std::ranges::count(names_of(graph), name);
}

/// A recorded step, before and after a pass.
struct Rewritten {
  Graph before;
  Graph after;
};

Rewritten rewritten(const Step& step, const Tensors& inputs,
                    const std::function<void(Graph&)>& pass) {
  Recording recording = record(step, inputs, {.check_schemas = true});
  EXPECT_EQ(recording.obstacle, "");
  for (const KeptMemory& kept : recording.changed) kept.restore();
  Rewritten both{recording.graph, recording.graph};
  pass(both.after);
  return both;
}

// What a graph returns and leaves in these tensors, which are as before afterwards.
Tensors results(const Graph& graph, const Tensors& inputs, const Tensors& changed = {}) {
  Tensors kept;
  for (const at::Tensor& one : changed) kept.push_back(one.clone());
  Tensors all = Interpreter(graph).run(inputs);
  for (std::size_t i = 0; i < changed.size(); ++i) {
    all.push_back(changed[i].clone());
    changed[i].copy_(kept[i]);
  }
  return all;
}

void expect_same_bits(const Rewritten& both, const Tensors& inputs, const Tensors& changed = {}) {
  const Tensors before = results(both.before, inputs, changed);
  const Tensors after = results(both.after, inputs, changed);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(after[i], before[i])) << i;
}

TEST(DeadWork, GoesWithItsMakers) {
  const auto both = rewritten(
      [](const Tensors& in) {
        const auto unused = torch::exp(torch::sin(in[0]));
        return Tensors{torch::cos(in[0]).t()};
      },
      {torch::randn({2, 3})}, remove_dead_work);
  EXPECT_EQ(names_of(both.after), std::vector<std::string>{"aten::cos"});
  expect_same_bits(both, {torch::randn({2, 3})});
}

TEST(DeadWork, KeepsWhatDrawsAndWhatStaysBehind) {
  const auto statistics = torch::zeros({3});
  const auto both = rewritten(
      [&](const Tensors& in) {
        torch::rand({4});
        statistics.add_(in[0]);
        return Tensors{in[0].neg()};
      },
      {torch::ones({3})}, remove_dead_work);
  EXPECT_THAT(names_of(both.after), testing::IsSupersetOf({"aten::add_.Tensor", "aten::neg"}));
  EXPECT_THAT(names_of(both.after), Contains(testing::StartsWith("aten::rand")));
}

TEST(Functional, AChangedTensorIsANewOne) {
  const auto both = rewritten(
      [](const Tensors& in) {
        auto x = in[0] + 1;
        const auto view = x.t();
        x.relu_();
        x.mul_(in[0]);
        return Tensors{view.exp(), x};
      },
      {torch::randn({2, 3})}, make_functional);
  for (const Node& node : both.after.nodes) EXPECT_TRUE(node.writes.empty()) << node.name();
  EXPECT_THAT(names_of(both.after), testing::IsSupersetOf({"aten::relu", "aten::mul.Tensor"}));
  expect_same_bits(both, {torch::randn({2, 3})});
}

TEST(Functional, APartThatIsChangedStaysInPlace) {
  const auto both = rewritten(
      [](const Tensors& in) {
        auto x = in[0].clone();
        x.select(0, 1).mul_(2.0);
        return Tensors{x};
      },
      {torch::randn({2, 3})}, make_functional);
  EXPECT_EQ(names_of(both.after), names_of(both.before));
  expect_same_bits(both, {torch::randn({2, 3})});
}

TEST(CommonSubexpressions, AreComputedOnce) {
  const auto both = rewritten(
      [](const Tensors& in) {
        const auto one = torch::tanh(in[0].mm(in[1]));
        const auto other = torch::tanh(in[0].mm(in[1]));
        return Tensors{one + other.neg() * other};
      },
      {torch::randn({2, 3}), torch::randn({3, 2})}, share_subexpressions);
  EXPECT_EQ(count_of(both.after, "aten::mm"), 1);
  EXPECT_EQ(count_of(both.after, "aten::tanh"), 1);
  expect_same_bits(both, {torch::randn({2, 3}), torch::randn({3, 2})});
}

TEST(CommonSubexpressions, AreNotSharedAcrossAChangeOfWhatTheyRead) {
  const auto w = torch::ones({3});
  const auto both = rewritten(
      [&](const Tensors& in) {
        const auto one = torch::exp(w);
        w.add_(in[0]);
        return Tensors{one + torch::exp(w)};
      },
      {torch::ones({3})}, share_subexpressions);
  EXPECT_EQ(count_of(both.after, "aten::exp"), 2);
  expect_same_bits(both, {torch::ones({3})}, {w});
}

TEST(CommonSubexpressions, RandomNumbersAreNotShared) {
  const auto both = rewritten(
      [](const Tensors& in) { return Tensors{torch::rand_like(in[0]) + torch::rand_like(in[0])}; },
      {torch::ones({3})}, share_subexpressions);
  EXPECT_EQ(both.after.nodes.size(), both.before.nodes.size());
}

TEST(Casts, ThereAndBackAreTheOriginal) {
  const auto both = rewritten(
      [](const Tensors& in) {
        const auto x = in[0].to(at::kBFloat16);
        return Tensors{x.to(at::kFloat).to(at::kBFloat16).neg(), x.clone().exp()};
      },
      {torch::randn({2, 3})}, remove_casts);
  EXPECT_EQ(names_of(both.after),
            (std::vector<std::string>{"aten::_to_copy", "aten::neg", "aten::exp"}));
  expect_same_bits(both, {torch::randn({2, 3})});
}

TEST(Casts, ThatRoundStay) {
  const auto both = rewritten(
      [](const Tensors& in) { return Tensors{in[0].to(at::kBFloat16).to(at::kFloat).neg()}; },
      {torch::randn({2, 3})}, remove_casts);
  EXPECT_EQ(count_of(both.after, "aten::_to_copy"), 2);
  expect_same_bits(both, {torch::randn({2, 3})});
}

TEST(Casts, ACopyIntoAPlaceCastsByItself) {
  const auto place = torch::zeros({2, 3});
  const auto both = rewritten(
      [&](const Tensors& in) {
        place.copy_(in[0].to(at::kFloat));
        return Tensors{in[0]};
      },
      {torch::randn({2, 3}).to(at::kBFloat16)}, remove_casts);
  EXPECT_EQ(names_of(both.after), std::vector<std::string>{"aten::copy_"});
  expect_same_bits(both, {torch::randn({2, 3}).to(at::kBFloat16)}, {place});
}

TEST(Bias, OfThreeDimensionsIsPartOfTheProduct) {
  torch::nn::Linear layer(4, 5);
  const auto x = torch::randn({2, 3, 4});
  const torch::NoGradGuard no_grad;
  const auto both =
      rewritten([&](const Tensors& in) { return Tensors{torch::relu(layer(in[0]))}; }, {x},
                [](Graph& graph) {
                  remove_dead_work(graph);
                  join_bias(graph);
                });
  EXPECT_EQ(names_of(both.after), (std::vector<std::string>{"aten::addmm", "aten::relu"}));
  const auto wanted = results(both.before, {x})[0];
  EXPECT_TRUE(at::allclose(results(both.after, {x})[0], wanted, 1e-6, 1e-6));
}

TEST(Bias, ThatIsAddedToAProductWhichIsReadAloneStays) {
  const auto b = torch::randn({5});
  const auto both = rewritten(
      [&](const Tensors& in) {
        const auto product = in[0].mm(in[1]);
        return Tensors{product + b, product.exp()};
      },
      {torch::randn({3, 4}), torch::randn({4, 5})}, join_bias);
  EXPECT_EQ(count_of(both.after, "aten::mm"), 1);
  EXPECT_EQ(count_of(both.after, "aten::add.Tensor"), 1);
}

TEST(Weights, OfConvolutionsOverChannelsLastLieLikewise) {
  const auto x = torch::randn({2, 8, 6, 6}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto w = torch::randn({4, 8, 3, 3});
  const auto b = x.to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
  const auto both = rewritten(
      [&](const Tensors& in) { return Tensors{torch::conv2d(in[0], w.to(at::kBFloat16))}; }, {b},
      [](Graph& graph) { lay_out_weights(graph, /*everywhere=*/true); });
  const ValueId cast = *both.after.nodes[0].results[0].value;
  EXPECT_EQ(both.after.geometry(cast).strides, (std::vector<std::int64_t>{72, 1, 24, 8}));
  EXPECT_EQ(both.before.geometry(cast).strides, (std::vector<std::int64_t>{72, 9, 3, 1}));
}

// The gradients of an indexed tensor, as backward makes them.
Tensors indexed_step(const Tensors& in) {
  const auto x = in[0].detach().requires_grad_();
  const auto p = (x * 1.5).permute({2, 0, 1, 3});
  const auto loss = (p[0] * p[1].exp() + p[2]).sum();
  loss.backward();
  return {x.grad()};
}

TEST(Slices, OfAnIndexedTensorAreWrittenAtOnce) {
  const auto x = torch::randn({4, 5, 3, 2});
  const auto both = rewritten(indexed_step, {x}, [](Graph& graph) {
    remove_dead_work(graph);
    make_functional(graph);
    write_slices(graph);
  });
  EXPECT_EQ(count_of(both.before, "aten::select_backward"), 3);
  EXPECT_EQ(count_of(both.after, "aten::select_backward"), 0);
  EXPECT_EQ(count_of(both.after, "aten::copy_"), count_of(both.before, "aten::copy_") + 3);
  EXPECT_EQ(count_of(both.after, "aten::empty_strided"), 1);
  EXPECT_TRUE(at::equal(results(both.after, {x})[0], results(both.before, {x})[0]));
}

TEST(Slices, ThatLeaveAGapStay) {
  const auto step = [](const Tensors& in) {
    const auto x = in[0].detach().requires_grad_();
    (x[0] * x[1].exp()).sum().backward();
    return Tensors{x.grad()};
  };
  const auto both = rewritten(step, {torch::randn({3, 2})}, [](Graph& graph) {
    remove_dead_work(graph);
    make_functional(graph);
    write_slices(graph);
  });
  EXPECT_EQ(count_of(both.after, "aten::select_backward"), 2);
  expect_same_bits(both, {torch::randn({3, 2})});
}

void write_only_gradients(Graph& graph) {
  remove_dead_work(graph);
  write_gradients(graph, {.padding = 16});
}

TEST(Gradients, AreWrittenWhereTheyWereAdded) {
  const auto flat = torch::full({40}, 7.0F);
  const auto both = rewritten(
      [&](const Tensors& in) {
        flat.zero_();
        flat.narrow(0, 0, 12).view({3, 4}).add_(in[0]);
        flat.narrow(0, 16, 20).add_(in[1]);
        flat.narrow(0, 16, 4).add_(in[0].select(0, 0));
        return Tensors{in[0]};
      },
      {torch::randn({3, 4}), torch::randn({20})}, write_only_gradients);
  EXPECT_EQ(count_of(both.after, "aten::zero_"), 0);
  EXPECT_EQ(count_of(both.after, "aten::copy_"), 2);
  EXPECT_EQ(count_of(both.after, "aten::add_.Tensor"), 1);
  const Tensors in{torch::randn({3, 4}), torch::randn({20})};
  flat.zero_();  // padding is zero before a step
  expect_same_bits(both, in, {flat});
}

TEST(Gradients, OfAVariableThatTheStepDoesNotTouchAreStillZeroed) {
  const auto flat = torch::full({40}, 7.0F);
  const auto both = rewritten(
      [&](const Tensors& in) {
        flat.zero_();
        flat.narrow(0, 0, 12).add_(in[0]);
        return Tensors{in[0]};
      },
      {torch::randn({12})}, write_only_gradients);
  EXPECT_EQ(count_of(both.after, "aten::zero_"), 1);
  EXPECT_EQ(count_of(both.after, "aten::copy_"), 1);
  expect_same_bits(both, {torch::randn({12})}, {flat});
}

// A whole step by the rewritten graph, against the graph as recorded.
void expect_rewritten_step(const Network& network, bool bf16, double tolerance) {
  SCOPED_TRACE(network.name);
  Trained trained(network, bf16);
  torch::manual_seed(3);
  const auto inputs = network.make_inputs();
  const auto both = rewritten([&](const Tensors& in) { return trained.step(in); }, inputs,
                              [](Graph& graph) { rewrite(graph, {.fuses = true}); });
  EXPECT_LT(both.after.nodes.size(), both.before.nodes.size());
  torch::manual_seed(5);
  const Tensors wanted = results(both.before, inputs, trained.values());
  torch::manual_seed(5);
  const Tensors ours = results(both.after, inputs, trained.values());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(at::allclose(ours[i], wanted[i], tolerance, tolerance))
        << "value " << i << ", off by " << (ours[i] - wanted[i]).abs().max();
  }
}

TEST(Rewrite, WholeStepsKeepTheirValues) {
  torch::manual_seed(4);
  for (const Network& network : networks::all()) expect_rewritten_step(network, false, 1e-5);
}

TEST(Rewrite, WholeStepsInBfloat16KeepTheirValues) {
  torch::manual_seed(6);
  expect_rewritten_step(networks::mlp(), true, 0.02);
  expect_rewritten_step(networks::transformer(), true, 0.02);
}

}  // namespace
}  // namespace muster::compiler
