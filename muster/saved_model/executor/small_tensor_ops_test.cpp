#include "muster/saved_model/executor/small_tensor_ops_internal.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/saved_model/executor/one_node_internal.h"

namespace muster::executor {
namespace {

using graph::DataType;
using ::testing::ElementsAre;

const std::vector<at::ScalarType> kFewTypes{at::kFloat, at::kDouble, at::kInt, at::kLong};

// Also beyond what the loops take, so that their way and libtorch's are compared.
const std::vector<std::int64_t> kFewCounts{0, 1, 3, kFewNumbers, kFewNumbers + 1};

at::Tensor small_tensor_ops(std::int64_t count, at::ScalarType type, int start = -3) {
  return (at::arange(count) % 7 + start).to(type);
}

at::Tensor computed(const std::string& op, const std::vector<Value>& inputs,
                    graph::Attrs attrs = {}) {
  return std::get<at::Tensor>(run_one_node(op, inputs, std::move(attrs), 1)[0]);
}

void expect_same(const at::Tensor& found, const at::Tensor& wanted) {
  EXPECT_EQ(found.scalar_type(), wanted.scalar_type());
  EXPECT_TRUE(found.equal(wanted)) << found << " and not " << wanted;
}

TEST(FewNumbers, AreCombinedAsManyAre) {
  for (const auto type : kFewTypes) {
    for (const auto count : kFewCounts) {
      const at::Tensor a = small_tensor_ops(count, type);
      const at::Tensor b = small_tensor_ops(count, type, -2).flip(0);
      const at::Tensor one = small_tensor_ops(1, type, 2).reshape({});
      expect_same(computed("AddV2", {a, b}), a + b);
      expect_same(computed("Sub", {a, one}), a - one);
      expect_same(computed("Sub", {one, a}), one - a);
      expect_same(computed("Mul", {a, b}), a * b);
      expect_same(computed("Equal", {a, b}), a == b);
      expect_same(computed("NotEqual", {a, one}), a != one);
      expect_same(computed("Less", {a, b}), a < b);
      expect_same(computed("LessEqual", {one, a}), one <= a);
      expect_same(computed("Greater", {a, b}), a > b);
      expect_same(computed("GreaterEqual", {a, b}), a >= b);
      expect_same(computed("OnesLike", {a}), at::ones_like(a));
    }
  }
  const at::Tensor row = small_tensor_ops(3, at::kFloat).reshape({1, 3});
  expect_same(computed("AddV2", {row, row.t()}), row + row.t());
  expect_same(computed("AddV2", {row, at::ones({1, 1, 1})}), row + at::ones({1, 1, 1}));
  EXPECT_THROW(computed("AddV2", {small_tensor_ops(3, at::kInt), small_tensor_ops(2, at::kInt)}),
               InvalidArgument);
}

TEST(FewNumbers, WrapAroundAsManyDo) {
  const at::Tensor most = at::full({2}, std::numeric_limits<std::int32_t>::max(), at::kInt);
  expect_same(computed("AddV2", {most, most}), most + most);
  expect_same(computed("Mul", {most, most}), most * most);
}

TEST(FewNumbers, AreCastAsManyAre) {
  for (const auto from : kFewTypes) {
    for (const auto& [to, name] : {std::pair{at::kFloat, DataType::kFloat},
                                   {at::kInt, DataType::kInt32},
                                   {at::kLong, DataType::kInt64},
                                   {at::kBool, DataType::kBool}}) {
      for (const auto count : kFewCounts) {
        const at::Tensor in = small_tensor_ops(count, from);
        expect_same(computed("Cast", {in}, {{"DstT", name}}), in.to(to));
        expect_same(computed("Cast", {in.eq(1)}, {{"DstT", name}}), in.eq(1).to(to));
      }
    }
  }
}

TEST(FewNumbers, AreJoinedAsManyAre) {
  for (const std::int64_t rows : {1, 2, 40}) {
    const at::Tensor a = small_tensor_ops(rows * 3, at::kLong).reshape({rows, 3});
    const at::Tensor b = small_tensor_ops(rows * 3, at::kLong, 5).reshape({rows, 3});
    for (const std::int64_t axis : {0, 1, 2}) {
      expect_same(computed("Pack", {a, b}, {{"axis", axis}}), at::stack({a, b}, axis));
    }
    const at::Tensor wide = small_tensor_ops(rows * 2, at::kLong).reshape({rows, 2});
    expect_same(computed("ConcatV2", {a, wide, at::scalar_tensor(1, at::kInt)}),
                at::cat({a, wide}, 1));
    EXPECT_THROW(computed("ConcatV2", {a, wide, at::scalar_tensor(0, at::kInt)}), InvalidArgument);
    expect_same(computed("ConcatV2", {a.t(), b.t(), at::scalar_tensor(-1, at::kInt)}),
                at::cat({a.t(), b.t()}, 1));
  }
}

TEST(FewNumbers, AreAddedUpInOrder) {
  for (const std::int64_t rows : {2, 100}) {
    const at::Tensor data = at::rand({rows, 5});
    const at::Tensor places = at::arange(rows).flip(0);
    const at::Tensor segments = at::arange(rows).div(2, "floor");
    const at::Tensor sum =
        at::zeros({rows, 5}).index_add_(0, segments, data.index_select(0, places));
    expect_same(computed("SparseSegmentSumWithNumSegments",
                         {data, places, segments, at::scalar_tensor(rows, at::kInt)}),
                sum);
    expect_same(computed("ScatterNd", {segments.reshape({-1, 1}), data,
                                       at::tensor({rows, std::int64_t{5}}, at::kLong)}),
                at::zeros({rows, 5}).index_add_(0, segments, data));
  }
  EXPECT_THROW(computed("ScatterNd", {at::full({1, 1}, 7, at::kInt), at::ones({1, 2}),
                                      at::tensor({3, 2}, at::kInt)}),
               InvalidArgument);
}

TEST(FewNumbers, AreGatheredInRows) {
  const at::Tensor in = at::rand({4, 3, 2});
  const at::Tensor places = at::tensor({3, 0, 2}, at::kLong);
  expect_same(computed("GatherNd", {in, places.reshape({3, 1})}), in.index_select(0, places));
  const at::Tensor pairs = at::tensor({3, 0, 1, 2}, at::kInt).reshape({2, 2});
  expect_same(computed("GatherNd", {in, pairs}), at::stack({in[3][0], in[1][2]}));
  EXPECT_THROW(computed("GatherNd", {in, at::tensor({4}, at::kLong).reshape({1, 1})}),
               InvalidArgument);
}

/// A graph from "x" to "y" with these nodes between.
ExecutableModel model_with(const std::vector<graph::NodeDef>& nodes) {
  graph::MetaGraph meta;
  meta.graph.nodes.push_back(graph::placeholder_node("x", DataType::kFloat, graph::Shape::any()));
  meta.graph.nodes.insert(meta.graph.nodes.end(), nodes.begin(), nodes.end());
  graph::SignatureDef signature;
  signature.inputs["x"] = {.name = "x:0", .dtype = DataType::kFloat, .shape = graph::Shape::any()};
  signature.outputs["y"] = {.name = "y:0", .dtype = {}, .shape = graph::Shape::any()};
  meta.signatures["f"] = signature;
  return ExecutableModel::from(meta, {});
}

graph::NodeDef step_node(const std::string& name, const std::string& op,
                         std::vector<std::string> inputs, graph::Attrs attrs = {}) {
  return {.name = name, .op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)};
}

TEST(MergeSteps, ComputesNothingTwice) {
  const auto model = model_with(
      {step_node("i", "Identity", {"x"}), step_node("a", "Shape", {"i"}, {{"_note", "left"}}),
       step_node("b", "Shape", {"x"}, {{"_note", "right"}}),
       step_node("c", "Shape", {"x"}, {{"out_type", DataType::kInt64}}),
       step_node("wide", "Cast", {"c"}, {{"DstT", DataType::kInt32}}),
       step_node("sum", "AddV2", {"a", "b"}), step_node("y", "AddV2", {"sum", "wide"})});
  EXPECT_THAT(model.planned_operations("f"),
              ElementsAre("Shape", "AddV2", "Shape", "Cast", "AddV2"));
  const auto y = model.run("f", {{"x", at::ones({2, 5})}}).at("y");
  expect_same(std::get<at::Tensor>(y), at::tensor({6, 15}, at::kInt));
}

TEST(MergeSteps, TakesEqualConstantsForOne) {
  const auto constant = [](const char* name, float value) {
    return graph::constant_node(name, graph::TensorValue::scalar(value));
  };
  const graph::Attrs floats{{"T", DataType::kFloat}};
  const auto model = model_with(
      {constant("zero", 0.0F), constant("nought", 0.0F), constant("less", -0.0F),
       step_node("a", "Greater", {"x", "zero"}, floats),
       step_node("b", "Greater", {"x", "nought"}, floats),
       step_node("c", "Greater", {"x", "less"}, floats),
       step_node("both", "LogicalAnd", {"a", "b"}), step_node("y", "LogicalAnd", {"both", "c"})});
  // -0 is another constant, though nothing is greater than one of them alone.
  EXPECT_THAT(model.planned_operations("f"),
              ElementsAre("Greater", "LogicalAnd", "Greater", "LogicalAnd"));
  const auto y = model.run("f", {{"x", at::tensor({-1.0F, 0.0F, 2.0F})}}).at("y");
  expect_same(std::get<at::Tensor>(y), at::tensor({0, 0, 1}, at::kInt).to(at::kBool));
}

TEST(MergeSteps, LeavesRandomNumbersApart) {
  const graph::Attrs kind{{"dtype", DataType::kFloat}, {"seed", 7}};
  const auto model =
      model_with({step_node("s", "Shape", {"x"}), step_node("a", "RandomUniform", {"s"}, kind),
                  step_node("b", "RandomUniform", {"s"}, kind), step_node("y", "Sub", {"a", "b"})});
  EXPECT_THAT(model.planned_operations("f"),
              ElementsAre("Shape", "RandomUniform", "RandomUniform", "Sub"));
}

TEST(FewNumbers, AreSortedIntoBucketsAsManyAre) {
  const graph::AttrList limits{.floats = {-1.5F, 0, 2.5F, 2.5F, 4}};
  const at::Tensor with_bounds =
      at::tensor({-2.0F, -1.5F, -0.0F, 0.1F, 2.5F, 2.4F, 4.0F, 5.0F, NAN, INFINITY, -INFINITY});
  for (const at::Tensor& few : {with_bounds, at::tensor({-3, -1, 0, 2, 3, 4, 9}, at::kInt)}) {
    // Beyond what the loop takes.
    const at::Tensor many = few.repeat({10});
    const graph::Attrs attrs{{"boundaries", limits}};
    expect_same(computed("Bucketize", {few}, attrs),
                computed("Bucketize", {many}, attrs).narrow(0, 0, few.numel()));
  }
}

TEST(FewNumbers, AreRepeatedAsManyAre) {
  const auto repeated = [](const at::Tensor& in, const std::vector<std::int64_t>& sizes) {
    return computed("BroadcastTo", {in, at::tensor(sizes, at::kLong)});
  };
  for (const auto type : {at::kFloat, at::kLong, at::kInt, at::kBool}) {
    const at::Tensor in = at::arange(6).remainder(5).to(type).reshape({2, 1, 3});
    for (const std::int64_t rows : {1, 4, 100}) {
      expect_same(repeated(in, {2, rows, 3}), in.expand({2, rows, 3}));
      expect_same(repeated(in, {rows, 2, 5, 3}), in.expand({rows, 2, 5, 3}));
    }
    expect_same(repeated(in.reshape({-1})[1], {2, 2}), in.reshape({-1})[1].expand({2, 2}));
    expect_same(repeated(in, {2, 0, 3}), in.expand({2, 0, 3}));
  }
  EXPECT_THROW(repeated(at::ones({2, 3}), {3, 3}), InvalidArgument);
  EXPECT_THROW(repeated(at::ones({2, 3}), {3}), InvalidArgument);
}

TEST(FewNumbers, AreAveragedBySegmentAsManyAre) {
  // The same rows, once few and once with columns that are too many for the loop.
  const at::Tensor wide = at::rand({4, 50}) * 10 - 5;
  const at::Tensor narrow = wide.narrow(1, 0, 3).contiguous();
  const at::Tensor indices = at::tensor({0, 2, 3, 1, 1}, at::kInt);
  const at::Tensor segments = at::tensor({0, 0, 0, 2, 2}, at::kInt);
  for (const char* op : {"SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum"}) {
    expect_same(computed(op, {narrow, indices, segments}),
                computed(op, {wide, indices, segments}).narrow(1, 0, 3));
  }
}

TEST(FewNumbers, AreJoinedAlongAxesThatAreThereAlone) {
  const at::Tensor part = at::ones({2, 3});
  const auto joined = [&](int axis) {
    return computed("ConcatV2", {part, part, at::full({}, axis, at::kInt)});
  };
  expect_same(joined(-1), at::cat({part, part}, -1));
  expect_same(joined(0), at::cat({part, part}, 0));
  EXPECT_THROW(joined(2), InvalidArgument);
  EXPECT_THROW(joined(-3), InvalidArgument);
  expect_same(computed("Pack", {part, part}, {{"axis", -1}}), at::stack({part, part}, -1));
  EXPECT_THROW(computed("Pack", {part, part}, {{"axis", 3}}), InvalidArgument);
}

}  // namespace
}  // namespace muster::executor
