#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/saved_model/executor/fusion_graph_test_internal.h"
#include "muster/testing/message_of.h"

namespace muster::executor {
namespace {

using graph::AttrValue;
using graph::DataType;
using graph::NodeDef;
using muster::testing::message_of;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Names = std::vector<std::string>;

constexpr double kRounding = 1e-5;

TEST(FuseLayers, MakesOneStepOfAConvolutionBiasBatchNormAndRelu) {
  at::manual_seed(1);
  FusionGraph graph;
  graph.constant("w", at::randn({3, 3, 4, 20})).constant("b", at::randn({20}));
  graph.convolution("c", {"x", "w"}, 1, "SAME").node("biased", "BiasAdd", {"c", "b"});
  graph.batch_norm("n", "biased", 20).node("y", "Relu", {"n"});
  EXPECT_THAT(graph.planned(), ElementsAre("FusedConv2D"));
  EXPECT_LT(graph.difference(at::randn({3, 9, 7, 4})), kRounding);
  EXPECT_LT(graph.difference(at::randn({1, 1, 1, 4})), kRounding);
}

TEST(FuseLayers, TakesThePadBeforeAConvolution) {
  at::manual_seed(2);
  FusionGraph graph;
  graph.constant("w", at::randn({3, 3, 2, 16}));
  graph.constant("pads", at::tensor({0, 0, 1, 2, 3, 0, 0, 0}, at::kInt).reshape({4, 2}));
  graph.node("p", "Pad", {"x", "pads"}).convolution("y", {"p", "w"}, 2, "VALID");
  EXPECT_THAT(graph.planned(), ElementsAre("FusedConv2D"));
  EXPECT_LT(graph.difference(at::randn({2, 8, 8, 2})), kRounding);
}

TEST(FuseLayers, LeavesAPadOfOtherAxes) {
  FusionGraph graph;
  graph.constant("w", at::randn({3, 3, 3, 16}));
  graph.constant("pads", at::tensor({0, 0, 1, 1, 1, 1, 0, 1}, at::kInt).reshape({4, 2}));
  graph.node("p", "Pad", {"x", "pads"}).convolution("y", {"p", "w"}, 1, "VALID");
  EXPECT_THAT(graph.planned(), ElementsAre("Pad", "FusedConv2D"));
  EXPECT_LT(graph.difference(at::randn({2, 8, 8, 2})), kRounding);
}

TEST(FuseLayers, AddsAShortcutOnTheWay) {
  at::manual_seed(3);
  FusionGraph graph;
  graph.constant("w", at::randn({3, 3, 4, 4}));
  graph.convolution("c", {"x", "w"}, 1, "SAME").batch_norm("n", "c", 4);
  graph.node("sum", "AddV2", {"z", "n"}).node("y", "Relu", {"sum"});
  EXPECT_THAT(graph.planned(), ElementsAre("FusedConv2D"));
  const auto x = at::randn({2, 5, 6, 4});
  EXPECT_LT(graph.difference(x, at::randn({2, 5, 6, 4})), kRounding);
  // One that is repeated along an axis is no shortcut; neither is one that makes the result larger.
  EXPECT_LT(graph.difference(x, at::randn({2, 1, 6, 4})), kRounding);
  EXPECT_LT(graph.difference(x.slice(0, 0, 1), at::randn({3, 5, 6, 4})), kRounding);
}

TEST(FuseLayers, MakesOneStepOfADenseLayerAndItsBatchNorm) {
  at::manual_seed(4);
  for (const bool turned : {false, true}) {
    FusionGraph graph;
    graph.constant("w", turned ? at::randn({33, 50}) : at::randn({50, 33}));
    graph.constant("b", at::randn({33})).constant("scale", at::randn({1, 33}));
    graph.constant("one", at::full({}, 0.5F));
    graph.node("m", "MatMul", {"x", "w"}, {{"T", DataType::kFloat}, {"transpose_b", turned}});
    graph.node("biased", "BiasAdd", {"m", "b"}).node("scaled", "Mul", {"scale", "biased"});
    graph.node("less", "Sub", {"scaled", "one"}).node("y", "Relu", {"less"});
    EXPECT_THAT(graph.planned(), ElementsAre("FusedMatMul"));
    EXPECT_LT(graph.difference(at::randn({1, 50})), kRounding);
    EXPECT_LT(graph.difference(at::randn({70, 50})), kRounding);
    EXPECT_LT(graph.difference(at::randn({50, 3}).t()), kRounding);
    const Values none =
        graph.load(true).run("f", {{"x", at::zeros({0, 50})}, {"z", at::zeros({1})}});
    EXPECT_THAT(shape_of(none.at("y")), ElementsAre(0, 33));
  }
}

TEST(FuseLayers, KeepsWhatSomebodyElseReads) {
  at::manual_seed(5);
  FusionGraph graph;
  graph.constant("w", at::randn({3, 3, 4, 8})).convolution("c", {"x", "w"}, 1, "SAME");
  graph.batch_norm("n", "c", 8).node("y", "Relu", {"n"}).fetch("n");
  EXPECT_THAT(graph.planned(), ElementsAre("FusedConv2D", "Relu"));
  EXPECT_LT(graph.difference(at::randn({2, 5, 5, 4})), kRounding);
}

TEST(FuseLayers, AddsTwoConvolutionsOfWhichEachIsAStep) {
  at::manual_seed(6);
  FusionGraph graph;
  graph.constant("w", at::randn({3, 3, 4, 8})).constant("v", at::randn({1, 1, 4, 8}));
  graph.convolution("c", {"x", "w"}, 2, "SAME").convolution("d", {"x", "v"}, 2, "SAME");
  graph.node("y", "AddV2", {"c", "d"});
  EXPECT_THAT(graph.planned(), ElementsAre("FusedConv2D", "FusedConv2D"));
  EXPECT_LT(graph.difference(at::randn({2, 7, 8, 4})), kRounding);
}

TEST(FuseLayers, RunsGroupsOfChannelsAsTheGraphHasThem) {
  at::manual_seed(7);
  FusionGraph graph;
  graph.constant("w", at::randn({3, 3, 2, 8})).convolution("c", {"x", "w"}, 1, "SAME");
  graph.node("y", "Relu", {"c"});
  EXPECT_THAT(graph.planned(), ElementsAre("FusedConv2D"));
  EXPECT_EQ(graph.difference(at::randn({2, 5, 5, 4})), 0);
}

TEST(FuseLayers, LeavesWeightsThatArePartOfTheRequest) {
  FusionGraph graph;
  graph.node("m", "MatMul", {"x", "z"}).node("y", "Relu", {"m"});
  EXPECT_THAT(graph.planned(), ElementsAre("MatMul", "Relu"));
}

TEST(FuseLayers, LeavesABiasThatIsNotOfTheOutputs) {
  at::manual_seed(8);
  FusionGraph graph;
  // [1, 1, 4, 1] goes along the width.
  graph.constant("w", at::randn({1, 1, 2, 4})).constant("b", at::randn({1, 1, 4, 1}));
  graph.convolution("c", {"x", "w"}, 1, "SAME").node("y", "AddV2", {"c", "b"});
  EXPECT_THAT(graph.planned(), ElementsAre("FusedConv2D", "AddV2"));
  EXPECT_LT(graph.difference(at::randn({2, 4, 4, 2})), kRounding);
}

TEST(FuseLayers, GivesARowTheSameBitsInAnyBatch) {
  at::manual_seed(9);
  FusionGraph graph;
  graph.constant("w", at::randn({50, 33})).constant("b", at::randn({33}));
  graph.node("m", "MatMul", {"x", "w"}).node("y", "AddV2", {"m", "b"});
  const auto model = graph.load(true);
  const auto rows = at::randn({40, 50});
  const auto of = [&](const at::Tensor& x) {
    return std::get<at::Tensor>(model.run("f", {{"x", x}, {"z", at::zeros({1})}}).at("y"));
  };
  const auto all = of(rows);
  for (const std::int64_t i : {0, 7, 39}) {
    EXPECT_TRUE(of(rows.slice(0, i, i + 1)).equal(all.slice(0, i, i + 1))) << i;
  }
}

TEST(FuseLayers, NamesTheNodeInErrors) {
  FusionGraph graph;
  graph.constant("w", at::randn({3, 3, 4, 8})).convolution("conv", {"x", "w"}, 1, "SAME");
  graph.batch_norm("n", "conv", 8).node("y", "Relu", {"n"});
  const auto message = [&](const at::Tensor& x, const RunLimits& limits = {}) {
    return message_of([&] { graph.load(true, limits).run("f", {{"x", x}, {"z", x}}); });
  };
  EXPECT_THAT(message(at::randn({2, 5, 5, 3})), HasSubstr("node conv (Conv2D)"));
  EXPECT_THAT(message(at::randn({2, 5, 5})), HasSubstr("node conv (Conv2D)"));
  EXPECT_THAT(message(at::randn({2, 64, 64, 4}), {.live_bytes = 1 << 16}),
              HasSubstr("node conv (Conv2D)"));
  EXPECT_THROW(graph.load(true, {.live_bytes = 1 << 16})
                   .run("f", {{"x", at::randn({2, 64, 64, 4})}, {"z", at::zeros({1})}}),
               ResourceExhausted);
}

TEST(FuseLayers, LeavesLayersThatTheBudgetOfTheLoadHasNoRoomFor) {
  FusionGraph graph;
  graph.constant("w", at::randn({100, 100})).node("y", "MatMul", {"x", "w"});
  EXPECT_THAT(graph.load(true, {.live_bytes = 1 << 20}).planned_operations("f"),
              Contains("FusedMatMul"));
  EXPECT_THAT(graph.load(true, {.live_bytes = 1 << 10}).planned_operations("f"),
              Not(Contains("FusedMatMul")));
}

TEST(FuseLayers, LeavesManyWeightsOfOneOutput) {
  FusionGraph graph;
  graph.constant("w", at::randn({100'000, 1})).node("y", "MatMul", {"x", "w"});
  EXPECT_THAT(graph.planned(), ElementsAre("MatMul"));
}

}  // namespace
}  // namespace muster::executor
