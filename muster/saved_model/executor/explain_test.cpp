#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/compute_deadline.h"
#include "muster/base/error.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/executor/integrated_gradients_internal.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/message_of.h"

namespace muster::executor {
namespace {

using graph::AttrValue;
using graph::DataType;
using muster::testing::message_of;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

at::Tensor row_of(const std::vector<float>& values) {
  return at::tensor(values, at::kFloat).reshape({1, -1});
}

/// A graph with the signature "f" to "y".
class ExplainedGraph {
 public:
  using Names = std::vector<std::string>;

  ExplainedGraph& input(const std::string& name, DataType type = DataType::kFloat) {
    meta_.graph.nodes.push_back(graph::placeholder_node(name, type, graph::Shape::any()));
    signature_.inputs[name] = {.name = name + ":0", .dtype = type, .shape = graph::Shape::any()};
    return *this;
  }
  ExplainedGraph& constant(const std::string& name, const at::Tensor& value) {
    return node(name, "Const", {}, {{"value", to_tensor_value(value)}});
  }
  ExplainedGraph& node(const std::string& name, const std::string& op, const Names& inputs,
                       graph::Attrs attrs = {}) {
    attrs.emplace("T", DataType::kFloat);
    meta_.graph.nodes.push_back({.name = name, .op = op, .inputs = inputs, .attrs = attrs});
    return *this;
  }
  ExplainedGraph& fetch(const std::string& name, DataType type = DataType::kFloat) {
    signature_.outputs[name] = {.name = name + ":0", .dtype = type, .shape = graph::Shape::any()};
    return *this;
  }

  ExecutableModel load(bool explain = true) const {
    graph::MetaGraph meta = meta_;
    meta.signatures["f"] = signature_;
    return ExecutableModel::from(meta, {}, {.explain = explain});
  }
  Explanation explain(const Values& inputs, const ExplainOptions& options = {},
                      const std::optional<Values>& baseline = std::nullopt) const {
    return load().explain("f", inputs, options, baseline);
  }

 private:
  graph::MetaGraph meta_;
  graph::SignatureDef signature_;
};

std::map<std::string, std::vector<double>> parts_of(const Explanation& explanation) {
  std::map<std::string, std::vector<double>> parts;
  for (const Attribution& one : explanation.attributions) parts[one.feature] = one.values;
  return parts;
}

// y = x w + b
ExplainedGraph linear(const std::vector<float>& weights) {
  ExplainedGraph graph;
  graph.input("x").constant("w", row_of(weights).reshape({-1, 1}));
  graph.constant("b", at::tensor({0.5F}, at::kFloat));
  graph.node("m", "MatMul", {"x", "w"}).node("y", "BiasAdd", {"m", "b"}).fetch("y");
  return graph;
}

TEST(Explain, GivesEachInputOfALinearModelItsWeightTimesItsWay) {
  const auto graph = linear({2, -3, 0.25F});
  const auto from_zero = graph.explain({{"x", row_of({1, 2, 4})}});
  EXPECT_THAT(parts_of(from_zero),
              ElementsAre(Pair("x", ElementsAre(DoubleNear(2, 1e-12), DoubleNear(-6, 1e-12),
                                                DoubleNear(1, 1e-12)))));
  EXPECT_EQ(from_zero.value, -2.5);
  EXPECT_EQ(from_zero.baseline_value, 0.5);
  EXPECT_TRUE(from_zero.is_complete);
  EXPECT_EQ(from_zero.output, "y");
  const auto from_elsewhere =
      graph.explain({{"x", row_of({1, 2, 4})}}, {.steps = 3}, Values{{"x", row_of({3, 2, -4})}});
  EXPECT_THAT(parts_of(from_elsewhere),
              ElementsAre(Pair("x", ElementsAre(DoubleNear(-4, 1e-12), 0, DoubleNear(2, 1e-12)))));
  EXPECT_EQ(from_elsewhere.attributions[0].shape, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(from_elsewhere.steps, 3);
}

TEST(Explain, SharesAProductAsTheIntegralsDo) {
  ExplainedGraph graph;
  graph.input("a").input("b").node("s", "Square", {"a"}).node("y", "Mul", {"s", "b"}).fetch("y");
  const auto explanation = graph.explain({{"a", row_of({2})}, {"b", row_of({3})}});
  // Two thirds of a * a * b go to a.
  EXPECT_THAT(parts_of(explanation), ElementsAre(Pair("a", ElementsAre(DoubleNear(8, 1e-5))),
                                                 Pair("b", ElementsAre(DoubleNear(4, 1e-5)))));
  EXPECT_LT(explanation.error, 1e-5);
}

TEST(Explain, AddsUpForASmallNetworkAndFindsTheLargestOutput) {
  at::manual_seed(5);
  ExplainedGraph graph;
  graph.input("x").constant("w1", at::randn({4, 8})).constant("w2", at::randn({8, 3}));
  graph.constant("b1", at::randn({8}));
  graph.node("h", "MatMul", {"x", "w1"}).node("c", "BiasAdd", {"h", "b1"});
  graph.node("r", "Relu", {"c"}).node("l", "MatMul", {"r", "w2"}).node("y", "Softmax", {"l"});
  graph.fetch("y").fetch("l");
  const Values inputs{{"x", row_of({1, -2, 0.5F, 3})}};
  const auto best = graph.explain(inputs, {.output = "y", .tolerance = 0.001});
  const auto outputs = graph.load().run("f", inputs);
  const at::Tensor y = std::get<at::Tensor>(outputs.at("y"));
  EXPECT_EQ(best.index, y.argmax().item<std::int64_t>());
  EXPECT_NEAR(best.value, y.max().item<double>(), 1e-6);
  EXPECT_TRUE(best.is_complete) << best.error;
  EXPECT_NEAR(best.attributions[0].sum(), best.value - best.baseline_value, best.error + 1e-12);
  const auto second = graph.explain(inputs, {.output = "l", .index = 2});
  EXPECT_EQ(second.index, 2);
  EXPECT_TRUE(second.is_complete) << second.error;
  EXPECT_THAT(message_of([&] { graph.explain(inputs); }),
              AllOf(HasSubstr("which output"), HasSubstr("l, y")));
  EXPECT_THROW(graph.explain(inputs, {.output = "y", .index = 3}), InvalidArgument);
  EXPECT_THROW(graph.explain(inputs, {.output = "z"}), InvalidArgument);
}

TEST(Explain, TakesMoreStepsUntilPartsAddUpAndSaysWhereTheyDoNot) {
  ExplainedGraph graph;
  graph.input("x").constant("k", at::scalar_tensor(100.0F)).constant("t", at::scalar_tensor(30.0F));
  graph.node("m", "Mul", {"x", "k"}).node("d", "Sub", {"m", "t"}).node("y", "Sigmoid", {"d"});
  graph.fetch("y");
  const Values inputs{{"x", row_of({1})}};
  const auto few = graph.explain(inputs, {.steps = 1, .max_steps = 2});
  EXPECT_FALSE(few.is_complete);
  EXPECT_GT(few.error, 0.5);
  EXPECT_EQ(few.steps, 1);
  const auto enough = graph.explain(inputs, {.steps = 1, .max_steps = kMostExplainSteps});
  EXPECT_TRUE(enough.is_complete) << enough.error;
  EXPECT_GT(enough.steps, 1);
  EXPECT_NEAR(enough.attributions[0].sum(), 1, 0.011);
}

TEST(Explain, FollowsTheBranchesThatNumbersChooseOnTheWay) {
  ExplainedGraph graph;
  graph.input("x")
      .constant("zero", at::scalar_tensor(0.0F))
      .constant("two", at::scalar_tensor(2.0F));
  graph.constant("half", at::scalar_tensor(0.5F));
  graph.node("up", "Mul", {"x", "two"}).node("down", "Mul", {"x", "half"});
  graph.node("is_up", "Greater", {"x", "zero"}).node("y", "SelectV2", {"is_up", "up", "down"});
  graph.fetch("y");
  const auto explanation =
      graph.explain({{"x", row_of({1})}}, {.steps = 8}, Values{{"x", row_of({-1})}});
  EXPECT_EQ(explanation.baseline_value, -0.5);
  EXPECT_NEAR(explanation.attributions[0].sum(), 2.5, 1e-9);
  EXPECT_TRUE(explanation.is_complete);
}

TEST(Explain, GoesStraightThroughWhatJumps) {
  ExplainedGraph graph;
  graph.input("x").constant("ten", at::scalar_tensor(10.0F));
  graph.node("f", "Floor", {"x"}).node("m", "Mul", {"f", "ten"}).node("y", "AddV2", {"m", "x"});
  graph.fetch("y");
  const auto explanation =
      graph.explain({{"x", row_of({3.5F})}}, {}, Values{{"x", row_of({1.25F})}});
  // 10 (3 - 1) by the jumps, and 2.25.
  EXPECT_THAT(parts_of(explanation), ElementsAre(Pair("x", ElementsAre(DoubleNear(22.25, 1e-9)))));
  EXPECT_TRUE(explanation.is_complete);
}

// y = (row of a table) w + x
ExplainedGraph embedding() {
  ExplainedGraph graph;
  graph.input("x").input("id", DataType::kInt64);
  graph.constant("table", at::tensor({1, 2, 3, 4, 5, 6}, at::kFloat).reshape({3, 2}));
  graph.constant("axis", at::scalar_tensor(0, at::kInt));
  graph.constant("w", at::tensor({10, 100}, at::kFloat).reshape({2, 1}));
  graph.node("row", "GatherV2", {"table", "id", "axis"}).node("m", "MatMul", {"row", "w"});
  graph.node("y", "AddV2", {"m", "x"}).fetch("y");
  return graph;
}

TEST(Explain, GivesWordsAndIdsOnePartByTheirEmbedding) {
  const auto id = [](std::int64_t number) { return at::tensor({number}, at::kLong); };
  const auto graph = embedding();
  const auto from_zero = graph.explain({{"id", id(2)}, {"x", row_of({7})}});
  EXPECT_THAT(parts_of(from_zero), ElementsAre(Pair("id", ElementsAre(DoubleNear(650, 1e-9))),
                                               Pair("x", ElementsAre(DoubleNear(7, 1e-12)))));
  EXPECT_EQ(from_zero.baseline_value, 0);
  EXPECT_TRUE(from_zero.attributions[0].shape.empty());
  const auto from_another = graph.explain({{"id", id(2)}, {"x", row_of({7})}}, {},
                                          Values{{"id", id(0)}, {"x", row_of({7})}});
  EXPECT_THAT(parts_of(from_another), ElementsAre(Pair("id", ElementsAre(DoubleNear(440, 1e-9))),
                                                  Pair("x", ElementsAre(0))));
  EXPECT_EQ(from_another.baseline_value, 217);
}

TEST(Explain, RefusesABaselineOfOtherSizes) {
  EXPECT_THAT(message_of([&] {
                linear({1, 2}).explain({{"x", row_of({1, 2})}}, {}, Values{{"x", row_of({1})}});
              }),
              HasSubstr("the matrices"));
  ExplainedGraph sums;
  sums.input("x").constant("axes", at::tensor({1}, at::kInt));
  sums.node("y", "Sum", {"x", "axes"}).fetch("y");
  EXPECT_THAT(message_of([&] {
                sums.explain({{"x", row_of({1, 2})}}, {}, Values{{"x", row_of({1})}});
              }),
              AllOf(HasSubstr("the baseline has DT_FLOAT [1, 1] for x"), HasSubstr("[1, 2]")));
  EXPECT_THAT(message_of([&] {
                sums.explain({{"x", at::ones({2, 2})}});
              }),
              HasSubstr("one row is explained at a time"));
}

TEST(Explain, HasGradientsWhereRequestsOfFewNumbersTakeShortWays) {
  // y = 2 x0 + 2 x0 + 2 x2, by operations that have loops of their own for few numbers.
  const auto ints = [](const std::vector<int>& values) { return at::tensor(values, at::kInt); };
  ExplainedGraph graph;
  graph.input("x");
  graph.constant("begin", ints({0, 0})).constant("end", ints({1, 3})).constant("by", ints({1, 2}));
  graph.constant("first", ints({0, 1})).constant("axis", at::scalar_tensor(1, at::kInt));
  graph.constant("flat", ints({-1})).constant("places", ints({0, 0, 1}).reshape({3, 1}));
  graph.constant("two", at::full({1}, 2.0F)).constant("size", ints({2}));
  graph.constant("all", ints({0})).constant("targets", ints({1, 0, 1}).reshape({3, 1}));
  graph.node("part", "StridedSlice", {"x", "begin", "end", "by"});
  graph.node("wide", "ConcatV2", {"part", "part", "axis"}).node("row", "Reshape", {"wide", "flat"});
  graph.node("found", "GatherNd", {"row", "places"}).node("more", "Mul", {"found", "two"});
  graph.node("put", "ScatterNd", {"targets", "more", "size"}).node("y", "Sum", {"put", "all"});
  graph.fetch("y");
  const Values inputs{{"x", row_of({3, 5, 7})}};
  const auto explanation = graph.explain(inputs);
  EXPECT_EQ(explanation.value, 26);
  EXPECT_THAT(parts_of(explanation),
              ElementsAre(Pair("x", ElementsAre(DoubleNear(12, 1e-9), 0, DoubleNear(14, 1e-9)))));
}

TEST(Explain, GivesTheLargestOfAWindowItsPart) {
  ExplainedGraph graph;
  graph.input("x");
  const auto window = AttrValue::list(std::vector<std::int64_t>{1, 2, 2, 1});
  graph.node(
      "y", "MaxPool", {"x"},
      {{"ksize", window}, {"strides", window}, {"padding", "VALID"}, {"data_format", "NHWC"}});
  graph.fetch("y");
  const auto explanation =
      graph.explain({{"x", at::tensor({1, 4, 2, 3}, at::kFloat).reshape({1, 2, 2, 1})}});
  EXPECT_THAT(parts_of(explanation),
              ElementsAre(Pair("x", ElementsAre(0, DoubleNear(4, 1e-9), 0, 0))));
}

TEST(Explain, NamesWhatItCannotGoThrough) {
  ExplainedGraph unknown;
  unknown.input("x").constant("flat", at::tensor({-1}, at::kInt));
  unknown.node("row", "Reshape", {"x", "flat"}).node("only", "Unique", {"row"});
  unknown.node("y", "Square", {"only"}).fetch("y");
  EXPECT_THAT(
      message_of([&] {
        unknown.explain({{"x", row_of({1, 2})}});
      }),
      AllOf(HasSubstr("node only (Unique)"), HasSubstr("gradient of the operation Unique")));
  ExplainedGraph whole;
  whole.input("x").node("y", "Shape", {"x"}).fetch("y", DataType::kInt32);
  EXPECT_THAT(message_of([&] {
                whole.explain({{"x", row_of({1})}});
              }),
              HasSubstr("no output of floating-point numbers"));
  ExplainedGraph constant;
  constant.input("x").node("y", "ZerosLike", {"x"}).fetch("y");
  EXPECT_THAT(message_of([&] {
                constant.explain({{"x", row_of({1})}});
              }),
              HasSubstr("the output y does not depend on the request"));
  EXPECT_THROW(linear({1}).load(/*explain=*/false).explain("f", {{"x", row_of({1})}}),
               FailedPrecondition);
}

TEST(Explain, WritesFunctionsOfTensorFlow2Out) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto model =
      ExecutableModel::load(data / "tensorflow/vars_and_arithmetic", {.explain = true});
  const auto explanation = model.explain(
      "serving_default", {{"a", at::scalar_tensor(4.0F)}, {"b", at::scalar_tensor(1.0F)}});
  // (a + 1) * (b + 2) / 3 + 5
  EXPECT_NEAR(explanation.value, 10, 1e-6);
  EXPECT_THAT(parts_of(explanation),
              ElementsAre(Pair("a", ElementsAre(DoubleNear(4 * 2.5 / 3, 1e-6))),
                          Pair("b", ElementsAre(DoubleNear(1, 1e-6)))));
}

TEST(Explain, RefusesChoicesThatAreOutOfRange) {
  const auto graph = linear({1});
  const Values inputs{{"x", row_of({1})}};
  EXPECT_THROW(graph.explain(inputs, {.steps = 0}), InvalidArgument);
  EXPECT_THROW(graph.explain(inputs, {.steps = kMostExplainSteps + 1}), InvalidArgument);
  EXPECT_THROW(graph.explain(inputs, {.steps = 8, .max_steps = 4}), InvalidArgument);
  EXPECT_THROW(graph.explain(inputs, {.tolerance = 0}), InvalidArgument);
  EXPECT_THROW(graph.explain(inputs, {.index = -1}), InvalidArgument);
  EXPECT_THROW(graph.explain({{"x", row_of({INFINITY})}}), FailedPrecondition);
}

TEST(Explain, EndsAtItsDeadline) {
  const auto model = linear({1}).load();
  const ComputeDeadline scope(Deadline::at(Deadline::Clock::now() - std::chrono::hours(1)));
  EXPECT_THROW(model.explain("f", {{"x", row_of({1})}}), DeadlineExceeded);
}

TEST(Quadrature, IntegratesPolynomialsExactly) {
  for (const std::int64_t count : {1, 2, 3, 8, 64}) {
    const auto degree = static_cast<double>(2 * count - 1);
    double integral = 0;
    for (const auto& [place, weight] : quadrature(count))
      integral += weight * std::pow(place, degree);
    EXPECT_NEAR(integral, 1 / (degree + 1), 1e-13) << count;
  }
}

}  // namespace
}  // namespace muster::executor
