#include "muster/train/compiler/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "muster/train/compiler/interpreter.h"
#include "muster/train/compiler/networks_internal.h"
#include "muster/train/compiler/operations.h"
#include "muster/train/compiler/recorder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

using networks::Network;
using networks::Trained;
using ::testing::Contains;
using ::testing::Not;
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

// Outputs of a graph and the values that it leaves in these tensors, which are as before
// afterwards.
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
  EXPECT_THAT(names_of(both.after), ::testing::IsSupersetOf({"aten::add_.Tensor", "aten::neg"}));
  EXPECT_THAT(names_of(both.after), Contains(::testing::StartsWith("aten::rand")));
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
  EXPECT_THAT(names_of(both.after), ::testing::IsSupersetOf({"aten::relu", "aten::mul.Tensor"}));
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

TEST(Counters, OfSeveralLayersAreCountedAtOnce) {
  const auto a = torch::zeros({}, at::kLong);
  const auto b = torch::full({}, 7, at::kLong);
  const auto read = torch::zeros({}, at::kLong);
  const auto both = rewritten(
      [&](const Tensors& in) {
        a.add_(1);
        read.add_(1);
        b.add_(3);
        return Tensors{in[0] * read};
      },
      {torch::ones({2})}, join_counters);
  EXPECT_EQ(both.after.nodes.size(), both.before.nodes.size() - 1);
  EXPECT_THAT(names_of(both.after), Contains("count(2)"));
  expect_same_bits(both, {torch::ones({2})}, {a, b, read});
}

// A convolution, and the gradient of its weight.
Tensors convolved(const at::Tensor& weight, std::int64_t stride, std::int64_t padding,
                  const Tensors& in) {
  const auto x = in[0].to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
  const auto w = weight.detach().requires_grad_();
  const auto y = torch::conv2d(x, w.to(at::kBFloat16), {}, stride, padding);
  (y.to(at::kFloat) * in[1]).sum().backward();
  return {y.detach().to(at::kFloat), w.grad()};
}

void expect_channels_in_blocks(std::int64_t channels, std::int64_t size, std::int64_t stride,
                               std::int64_t padding, const std::string& name) {
  SCOPED_TRACE(name + " " + std::to_string(size) + " " + std::to_string(padding));
  const auto w = torch::randn({4, channels, size, size});
  const auto x = torch::randn({2, channels, 11, 12});
  const Tensors inputs{x, torch::randn_like(torch::conv2d(x, w, {}, stride, padding))};
  const auto both =
      rewritten([&](const Tensors& in) { return convolved(w, stride, padding, in); }, inputs,
                [](Graph& graph) {
                  remove_casts(graph);
                  pad_channels(graph, /*everywhere=*/true);
                });
  EXPECT_EQ(count_of(both.after, name), 2);
  const Tensors wanted = results(both.before, inputs);
  const Tensors ours = results(both.after, inputs);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(ours[i].sizes(), wanted[i].sizes());
    EXPECT_LT(((ours[i] - wanted[i]).norm() / wanted[i].norm()).item<double>(), 0.02);
  }
}

TEST(Channels, ThatAreFewBecomeMore) {
  expect_channels_in_blocks(3, 3, 1, 1, "3 channels to 8, by 1");
  expect_channels_in_blocks(2, 5, 1, 0, "2 channels to 8, by 1");
  expect_channels_in_blocks(3, 7, 2, 3, "3 channels to 16, by 2");
  expect_channels_in_blocks(4, 3, 2, 1, "4 channels to 16, by 2");
  expect_channels_in_blocks(2, 4, 2, 0, "2 channels to 8, by 2");
  expect_channels_in_blocks(3, 6, 2, 2, "3 channels to 16, by 2");
}

TEST(Channels, OfAPictureWhoseGradientIsWantedStay) {
  const auto w = torch::randn({4, 3, 3, 3});
  const auto step = [&](const Tensors& in) {
    const auto x = in[0].detach().requires_grad_();
    torch::conv2d(x.to(at::kBFloat16), w.to(at::kBFloat16)).sum().backward();
    return Tensors{x.grad()};
  };
  const auto both = rewritten(step, {torch::randn({2, 3, 9, 9})},
                              [](Graph& graph) { pad_channels(graph, /*everywhere=*/true); });
  EXPECT_EQ(count_of(both.after, "3 channels to 8, by 1"), 0);
}

TEST(Concatenations, AreWrittenByWhatMakesTheirParts) {
  const auto last = at::MemoryFormat::ChannelsLast;
  const Tensors inputs{torch::randn({2, 3, 4, 4}).contiguous(last),
                       torch::randn({2, 5, 4, 4}).contiguous(last)};
  const auto step = [](const Tensors& in) {
    const auto a = in[0].neg();
    const auto b = in[1].abs();
    const auto both = torch::cat({a, in[1], b}, 1);
    return Tensors{both.neg(), a};
  };
  const auto both = rewritten(step, inputs, write_concatenations);
  EXPECT_EQ(count_of(both.after, "aten::cat"), 0);
  EXPECT_EQ(count_of(both.after, "aten::copy_"), 3);
  expect_same_bits(both, inputs);
  const auto joined = rewritten(step, inputs, [](Graph& graph) {
    write_concatenations(graph);
    lower_elements(graph);
    fuse(graph);
  });
  EXPECT_EQ(count_of(joined.after, "aten::copy_"), 0);
  EXPECT_LE(joined.after.nodes.size(), 5U);
  expect_same_bits(joined, inputs);
}

TEST(Concatenations, ReadWhatIsChangedBeforeThem) {
  const auto place = torch::randn({2, 3});
  const auto both = rewritten(
      [&](const Tensors& in) {
        auto a = in[0].neg();
        a.select(0, 0).mul_(2);
        place.add_(in[0]);
        return Tensors{torch::cat({a, place}, 0)};
      },
      {torch::randn({2, 3})}, write_concatenations);
  EXPECT_EQ(count_of(both.after, "aten::cat"), 0);
  expect_same_bits(both, {torch::randn({2, 3})}, {place});
}

void lower_and_order(Graph& graph) {
  lower_elements(graph);
  lower_sums(graph);
  order_programs(graph);
}

TEST(Order, ProgramsReadWhatACastRead) {
  const auto b = torch::randn({4, 6}).to(at::kBFloat16);
  const auto both = rewritten(
      [](const Tensors& in) {
        const auto wide = in[0].to(at::kFloat);
        return Tensors{wide * 2, wide.narrow(0, 1, 2).neg()};
      },
      {b}, lower_and_order);
  EXPECT_EQ(both.after.nodes.size(), 2U);
  expect_same_bits(both, {b});
}

TEST(Order, ACastOfWhatIsChangedBehindItStays) {
  const auto place = torch::randn({4}).to(at::kBFloat16);
  const auto both = rewritten(
      [&](const Tensors& in) {
        const auto wide = place.to(at::kFloat);
        place.copy_(in[0]);
        return Tensors{wide * 2};
      },
      {torch::randn({4})}, lower_and_order);
  EXPECT_EQ(both.after.nodes.size(), both.before.nodes.size());
  expect_same_bits(both, {torch::randn({4})}, {place});
}

TEST(Order, ACopyToAPlaceFollowsItsMaker) {
  const auto place = torch::zeros({4});
  const auto both = rewritten(
      [&](const Tensors& in) {
        const auto made = in[0].neg();
        const auto product = in[1].mm(in[1]);
        place.copy_(made);
        return Tensors{product};
      },
      {torch::randn({4}), torch::randn({4, 4})}, lower_and_order);
  EXPECT_THAT(names_of(both.after).back(), "aten::mm");
  expect_same_bits(both, {torch::randn({4}), torch::randn({4, 4})}, {place});
}

TEST(Groups, AreOfProgramsThatDoNotDependOnOneAnother) {
  const auto place = torch::zeros({6});
  const auto both = rewritten(
      [&](const Tensors& in) {
        const auto a = in[0].to(at::kBFloat16);
        const auto product = a.mm(a);
        const auto b = in[1].abs();
        place.copy_(in[1]);
        const auto c = place.neg();
        place.add_(b);
        return Tensors{product.neg(), b, c};
      },
      {torch::randn({4, 4}), torch::randn({6})},
      [](Graph& graph) {
        lower_elements(graph);
        group_programs(graph);
      });
  EXPECT_LE(both.after.nodes.size(), both.before.nodes.size() - 3);
  EXPECT_EQ(count_of(both.after, "aten::mm"), 1);
  expect_same_bits(both, {torch::randn({4, 4}), torch::randn({6})}, {place});
}

TEST(Products, AreWrittenInFloatWhereLibtorchCan) {
  const auto place = torch::zeros({3, 4});
  const auto step = [&](const Tensors& in) {
    place.copy_(in[0].mm(in[1]));
    return Tensors{};
  };
  const auto both = rewritten(
      step, {torch::randn({3, 5}).to(at::kBFloat16), torch::randn({5, 4}).to(at::kBFloat16)},
      [](Graph& graph) { write_products(graph, /*everywhere=*/true); });
  if (!find_if_there("aten::mm", "dtype_out")) {
    EXPECT_EQ(names_of(both.after), names_of(both.before));
    return;
  }
  ASSERT_EQ(names_of(both.after), std::vector<std::string>{"aten::mm.dtype_out"});
  EXPECT_EQ(both.after.geometry(both.after.nodes[0].writes[0]).type, at::kFloat);
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
