#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/compute_deadline.h"
#include "muster/base/error.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/executor/one_node_internal.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/testing/message_of.h"

namespace muster::executor {
namespace {

using graph::AttrValue;
using graph::DataType;
using graph::FunctionRef;
using graph::NodeDef;
using graph::TensorValue;
using muster::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kMegabyte = 1 << 20;
const RunLimits kSmall{.live_bytes = kMegabyte};

at::Tensor int_vector(const Sizes& values) { return at::tensor(values, at::kLong).to(at::kInt); }
at::Tensor int_scalar(std::int64_t value) { return at::scalar_tensor(value, at::kInt); }
at::Tensor long_tensor(const Sizes& values, const Sizes& shape) {
  return at::tensor(values, at::kLong).reshape(shape);
}

// An operation that wants much of little, and says which limit stops it.
void expect_refused(const std::string& op, const std::vector<Value>& inputs,
                    graph::Attrs attrs = {}, int outputs = 1) {
  EXPECT_THAT(
      message_of([&] { run_one_node(op, inputs, attrs, outputs, kSmall); }),
      AllOf(HasSubstr("node y (" + op + ")"), HasSubstr("1048576"), HasSubstr("--max-live-bytes")))
      << op;
}

TEST(Limits, RefuseWhatFewBytesMakeLarge) {
  const at::Tensor one = at::ones({1, 1});
  const at::Tensor row = at::ones({1, 1000});
  const at::Tensor column = at::ones({1000, 1});
  expect_refused("Fill", {int_vector({1000, 1000}), at::scalar_tensor(1.0F)});
  expect_refused("Range", {int_scalar(0), int_scalar(1 << 20), int_scalar(1)});
  expect_refused("Tile", {one, int_vector({1000, 1000})});
  expect_refused("BroadcastTo", {one, int_vector({1000, 1000})});
  expect_refused("AddV2", {row, column});
  expect_refused("Less", {row, at::ones({10000, 1})});
  expect_refused("SelectV2", {column.to(at::kBool), row, row});
  expect_refused("MatMul", {column, row});
  expect_refused("BatchMatMulV2", {at::ones({1000, 1, 1}), at::ones({1, 1, 1000})});
  expect_refused("Einsum", {column.flatten(), row.flatten()}, {{"equation", "i,j->ij"}});
  expect_refused("Einsum", {column, row}, {{"equation", "i...,...j->ij"}});
  expect_refused("OneHot", {int_vector({0, 1}), int_scalar(1 << 20), at::scalar_tensor(1.0F),
                            at::scalar_tensor(0.0F)});
  expect_refused("Pad", {one, int_vector({1000, 0, 1000, 0}).reshape({2, 2})});
  expect_refused("GatherV2", {row, at::zeros({1000}, at::kInt), int_scalar(0)});
  expect_refused("GatherNd", {row, at::zeros({1000, 1}, at::kInt)});
  expect_refused("ScatterNd", {at::zeros({1, 1}, at::kInt), at::ones({1}), int_vector({1 << 20})});
  expect_refused("Cast", {at::zeros({1 << 18}, at::kBool)}, {{"DstT", DataType::kDouble}});
  expect_refused("Where", {at::ones({64, 64, 8, 8}, at::kByte)});
  expect_refused("Unpack", {at::zeros({10000}, at::kByte)}, {{"num", 10000}});
  expect_refused("ResizeNearestNeighbor", {at::ones({1, 1, 1, 1}), int_vector({1000, 1000})});
}

TEST(Limits, RefuseWhatIsLeftOfATensorWithoutElements) {
  const at::Tensor empty = at::empty({0, 1 << 21});
  for (const char* op : {"Sum", "Mean", "Max", "Prod", "ArgMax"}) {
    expect_refused(op, {empty, op == std::string("ArgMax") ? int_scalar(0) : int_vector({0})});
  }
  expect_refused("All", {empty.to(at::kBool), int_vector({0})});
  // Axis by axis: both are gone in the end.
  expect_refused("Any", {at::empty({1 << 11, 0, 1 << 11}, at::kBool), int_vector({0, 1})});
}

TEST(Limits, RefuseConvolutionsOfPaddedImages) {
  const at::Tensor image = at::ones({1, 1, 1, 1});
  const graph::Attrs padded{
      {"strides", AttrValue::list(Sizes{1, 1, 1, 1})},
      {"padding", "EXPLICIT"},
      {"explicit_paddings", AttrValue::list(Sizes{0, 0, 500, 500, 500, 500, 0, 0})}};
  expect_refused("Conv2D", {image, at::ones({1, 1, 1, 1})}, padded);
  // Many filters, and a window that is spread far.
  expect_refused("Conv2D", {at::ones({1, 32, 32, 1}), at::ones({1, 1, 1, 1000})},
                 {{"strides", AttrValue::list(Sizes{1, 1, 1, 1})}, {"padding", "SAME"}});
  expect_refused("Conv2D", {image, at::ones({2, 2, 1, 1})},
                 {{"strides", AttrValue::list(Sizes{1, 1, 1, 1})},
                  {"dilations", AttrValue::list(Sizes{1, 1000, 1000, 1})},
                  {"padding", "SAME"}});
}

TEST(Limits, RefuseSparseValuesOfManyRows) {
  const at::Tensor place = long_tensor({0, 0}, {1, 2});
  expect_refused("SparseToDense", {long_tensor({0, 0}, {1, 2}), long_tensor({1000, 1000}, {2}),
                                   at::ones({1}), at::scalar_tensor(0.0F)});
  expect_refused("SparseFillEmptyRows",
                 {place, at::ones({1}), long_tensor({1 << 20, 1}, {2}), at::scalar_tensor(0.0F)},
                 {}, 4);
  expect_refused("UnsortedSegmentSum",
                 {at::ones({1, 1}), at::zeros({1}, at::kInt), int_scalar(1 << 20)});
  expect_refused("SparseSegmentSum",
                 {at::ones({1, 1000}), at::zeros({1000}, at::kInt), at::zeros({1000}, at::kInt)});
  const at::Tensor many = at::zeros({1, 300}, at::kLong);
  expect_refused("SparseCross", {many, many},
                 {{"N", 0}, {"hashed_output", true}, {"num_buckets", 10}, {"hash_key", 1}}, 3);
}

TEST(Limits, RefuseStringsThatAreRepeated) {
  const StringTensor text({std::string(1000, 'x')});
  expect_refused("Tile", {text, int_vector({10000})});
  expect_refused("Fill", {int_vector({10000}), StringTensor({std::string(1000, 'x')}, {})});
  const StringTensor words(std::vector<std::string>(1200, "word"));
  expect_refused("StringJoin", {words, StringTensor({std::string(1000, 'x')}, {})});
  expect_refused("AsString", {at::ones({10000})}, {{"width", 1000}});
}

NodeDef make_node(std::string name, std::string op, std::vector<std::string> inputs,
                  graph::Attrs attrs = {}) {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs = std::move(inputs),
          .attrs = std::move(attrs)};
}

// The signature "f" from "x" to "y", and what it answers to x with these limits.
graph::MetaGraph model_of(std::vector<NodeDef> nodes, DataType type = DataType::kFloat) {
  graph::MetaGraph meta;
  meta.graph.nodes = std::move(nodes);
  meta.graph.nodes.push_back(graph::placeholder_node("x", type, graph::Shape::any()));
  auto& signature = meta.signatures["f"];
  signature.inputs["x"] = {.name = "x:0", .dtype = type, .shape = graph::Shape::any()};
  signature.outputs["y"] = {.name = "y:0", .dtype = type, .shape = graph::Shape::any()};
  return meta;
}

Value answer(const graph::MetaGraph& meta, const Value& x, const RunLimits& limits) {
  return ExecutableModel::from(meta, {}, {.limits = limits}).run("f", {{"x", x}}).at("y");
}

// y is x joined with itself, again and again.
graph::MetaGraph doubling(int times, const std::string& op) {
  const DataType type = op == "StringJoin" ? DataType::kString : DataType::kFloat;
  std::vector<NodeDef> nodes{graph::constant_node("axis", TensorValue::scalar<std::int32_t>(0))};
  std::string last = "x";
  for (int i = 0; i < times; ++i) {
    const auto name = i + 1 == times ? std::string("y") : fmt::format("twice{}", i);
    std::vector<std::string> inputs{last, last};
    if (op == "ConcatV2") inputs.push_back("axis");
    nodes.push_back(make_node(name, op, inputs));
    last = name;
  }
  return model_of(nodes, type);
}

TEST(Limits, RefuseWhatDoublesAgainAndAgain) {
  EXPECT_THROW(answer(doubling(40, "ConcatV2"), at::ones({1}), kSmall), ResourceExhausted);
  EXPECT_THROW(answer(doubling(40, "StringJoin"), StringTensor({"text"}), kSmall),
               ResourceExhausted);
  // A value that fits is made.
  const auto made = std::get<at::Tensor>(answer(doubling(10, "ConcatV2"), at::ones({1}), kSmall));
  EXPECT_EQ(made.numel(), 1024);
}

TEST(Limits, CountWhatIsHeldTogether) {
  const auto chain = [](bool together) {
    std::vector<NodeDef> nodes;
    std::vector<std::string> all;
    for (int i = 0; i < 8; ++i) {
      const auto name = fmt::format("n{}", i);
      nodes.push_back(make_node(name, "Neg", {together || i == 0 ? "x" : all.back()}));
      // A view keeps the memory of what it was made of.
      nodes.push_back(make_node(name + "view", "Identity", {name}));
      all.push_back(name + "view");
    }
    nodes.push_back(make_node("y", "AddN", together ? all : std::vector{all.back()}));
    return model_of(nodes);
  };
  const at::Tensor x = at::ones({kMegabyte / 4 / 4});
  EXPECT_NO_THROW(answer(chain(/*together=*/false), x, kSmall));
  EXPECT_THAT(message_of([&] { answer(chain(/*together=*/true), x, kSmall); }),
              AllOf(HasSubstr("(Neg)"), HasSubstr("--max-live-bytes")));
  EXPECT_THAT(message_of([&] {
                answer(chain(/*together=*/false), x,
                       {.live_bytes = kMegabyte, .total_bytes = kMegabyte});
              }),
              HasSubstr("--max-total-bytes"));
}

TEST(Limits, CountOperationsAndTime) {
  const auto meta = doubling(3, "ConcatV2");
  EXPECT_THAT(message_of([&] { answer(meta, at::ones({1}), {.operations = 2}); }),
              AllOf(HasSubstr("node y (ConcatV2)"), HasSubstr("--max-operations")));
  EXPECT_THAT(
      message_of([&] { answer(meta, at::ones({1}), {.time = std::chrono::milliseconds(0)}); }),
      HasSubstr("--max-seconds"));
}

// Each function calls the next one twice.
graph::MetaGraph calling_twice(int depth) {
  const auto name = [](int i) { return fmt::format("g{}", i); };
  auto meta = model_of({make_node("y", "PartitionedCall", {"x"}, {{"f", FunctionRef{name(0)}}})});
  for (int i = 0; i < depth; ++i) {
    graph::FunctionDef function;
    function.signature.name = name(i);
    function.signature.inputs = {{.name = "a", .type = DataType::kFloat}};
    function.signature.outputs = {{.name = "b", .type = DataType::kFloat}};
    const bool last = i + 1 == depth;
    const auto step = [&](const char* of, const char* input) {
      return last ? make_node(of, "Neg", {input})
                  : make_node(of, "PartitionedCall", {input}, {{"f", FunctionRef{name(i + 1)}}});
    };
    function.nodes = {step("once", "a"), step("twice", last ? "once:y:0" : "once:output:0")};
    function.ret = {{"b", last ? "twice:y:0" : "twice:output:0"}};
    meta.graph.functions.push_back(function);
  }
  return meta;
}

TEST(Limits, EndFunctionsThatCallEachOtherTwice) {
  EXPECT_THAT(message_of([&] { answer(calling_twice(50), at::ones({1}), {.calls = 1000}); }),
              HasSubstr("--max-calls"));
  EXPECT_THAT(message_of([&] { answer(calling_twice(50), at::ones({1}), {.call_depth = 40}); }),
              HasSubstr("40 deep"));
  EXPECT_NO_THROW(answer(calling_twice(5), at::ones({1}), {.calls = 1000}));
}

TEST(Limits, EndALoopThatDoesNotEnd) {
  auto meta = model_of({make_node(
      "y", "While", {"x"}, {{"cond", FunctionRef{"always"}}, {"body", FunctionRef{"grow"}}})});
  graph::FunctionDef always;
  always.signature = {.name = "always",
                      .inputs = {{.name = "a", .type = DataType::kFloat}},
                      .outputs = {{.name = "b", .type = DataType::kBool}}};
  always.nodes = {graph::constant_node("yes", TensorValue::scalar(true))};
  always.ret = {{"b", "yes:output:0"}};
  graph::FunctionDef grow;
  grow.signature = {.name = "grow",
                    .inputs = {{.name = "a", .type = DataType::kFloat}},
                    .outputs = {{.name = "b", .type = DataType::kFloat}}};
  grow.nodes = {graph::constant_node("axis", TensorValue::scalar<std::int32_t>(0)),
                make_node("more", "ConcatV2", {"a", "a", "axis:output:0"})};
  grow.ret = {{"b", "more:output:0"}};
  meta.graph.functions = {always, grow};
  EXPECT_THAT(message_of([&] { answer(meta, at::ones({1}), kSmall); }),
              AllOf(HasSubstr("node more (ConcatV2)"), HasSubstr("--max-live-bytes")));
  meta.graph.functions[1].ret = {{"b", "a"}};
  EXPECT_THAT(message_of([&] { answer(meta, at::ones({1}), {.calls = 100}); }),
              HasSubstr("--max-calls"));
}

// Runs the kernel of an operation with no time left, which no check sees before it runs.
void expect_to_look_at_the_time(const std::string& op, const std::vector<Value>& inputs,
                                graph::Attrs attrs = {}) {
  Resources resources;
  const NodeDef node = make_node("y", op, {}, std::move(attrs));
  const Kernel kernel = OpTable::standard().find(op)->make(
      {.node = node, .device = at::kCPU, .resources = resources});
  Slots slots;
  for (const Value& input : inputs) slots.push_back(to_slot(input));
  Budget budget({.time = std::chrono::milliseconds(0)});
  EXPECT_THAT(message_of([&] { kernel(Inputs(slots, at::kCPU, budget)); }),
              HasSubstr("--max-seconds"))
      << op;
}

TEST(Limits, TheTimeIsLookedAtInsideOfLongOperations) {
  const StringTensor text({std::string(3 << 20, 'x')}, {1});
  const StringTensor empty({std::string()}, {1});
  expect_to_look_at_the_time("StringJoin", {text, text});
  expect_to_look_at_the_time("StringLower", {text});
  expect_to_look_at_the_time("StringStrip", {text});
  expect_to_look_at_the_time("EncodeBase64", {text});
  expect_to_look_at_the_time("DecodeRaw", {text}, {{"out_type", DataType::kUint8}});
  expect_to_look_at_the_time("StringToHashBucketFast", {text}, {{"num_buckets", 9}});
  expect_to_look_at_the_time("StringSplitV2", {text, StringTensor({","}, {})});
  expect_to_look_at_the_time("StaticRegexReplace", {text}, {{"pattern", "a"}, {"rewrite", "b"}});
  expect_to_look_at_the_time("StaticRegexFullMatch", {text}, {{"pattern", "a"}});
  expect_to_look_at_the_time("Equal", {text, text});
  expect_to_look_at_the_time("GatherV2", {text, at::zeros({1}, at::kInt), int_scalar(0)});
  expect_to_look_at_the_time("Tile", {text, int_vector({2})});
  // Views of one element: what is made of them is large, and they are not.
  const at::Tensor one = at::zeros({1, 1}, at::kByte);
  const at::Tensor large = one.expand({1 << 13, 1 << 13});
  expect_to_look_at_the_time("Neg", {large});
  expect_to_look_at_the_time("AddV2", {large, one});
  expect_to_look_at_the_time("Less", {large, one});
  expect_to_look_at_the_time("Equal", {large, one});
  expect_to_look_at_the_time("Cast", {large}, {{"DstT", DataType::kBool}});
  expect_to_look_at_the_time("SelectV2", {large.to(at::kBool), one, one});
  const at::Tensor half = one.expand({1 << 11, 1 << 12});
  expect_to_look_at_the_time("ConcatV2", {half, half, int_scalar(0)});
  expect_to_look_at_the_time("Pack", {half, half});
  expect_to_look_at_the_time("Tile", {one, int_vector({1 << 12, 1 << 12})});
  expect_to_look_at_the_time("Fill", {int_vector({1 << 12, 1 << 12}), at::scalar_tensor(1.0F)});
  expect_to_look_at_the_time("BroadcastTo", {one, int_vector({1 << 12, 1 << 12})});
  expect_to_look_at_the_time("GatherV2", {one, at::zeros({1 << 24}, at::kInt), int_scalar(0)});
  const at::Tensor matrix = at::zeros({1, 1}).expand({1 << 12, 1 << 12});
  expect_to_look_at_the_time("MatMul", {matrix, matrix});
  expect_to_look_at_the_time("BatchMatMulV2", {matrix.unsqueeze(0), matrix});
  expect_to_look_at_the_time(
      "Conv2D", {at::zeros({1}).expand({2, 64, 64, 512}), at::zeros({3, 3, 512, 512})},
      {{"strides", AttrValue::list(Sizes{1, 1, 1, 1})}, {"padding", "SAME"}});
}

TEST(Limits, WhatIsMadePieceByPieceIsTheSame) {
  const at::Tensor column = at::arange(9000, at::kInt).reshape({-1, 1});
  const at::Tensor row = at::arange(5000, at::kInt).reshape({1, -1});
  const auto made = [](const std::string& op, const std::vector<Value>& inputs) {
    return std::get<at::Tensor>(run_one_node(op, inputs, {}, 1)[0]);
  };
  EXPECT_TRUE(at::equal(made("AddV2", {column, row}), column + row));
  EXPECT_TRUE(at::equal(made("Neg", {column + row}), -(column + row)));
  EXPECT_TRUE(at::equal(made("Less", {column, row}), column < row));
  const at::Tensor some = (column + row).narrow(0, 0, 1000).to(at::kByte);
  EXPECT_TRUE(at::equal(made("ConcatV2", {some, some.narrow(1, 0, 4000), int_scalar(1)}),
                        at::cat({some, some.narrow(1, 0, 4000)}, 1)));
  EXPECT_TRUE(at::equal(made("Tile", {some, int_vector({2, 3})}), some.repeat({2, 3})));
  const at::Tensor places = at::arange(2500, at::kInt).remainder(1000);
  EXPECT_TRUE(at::equal(made("GatherV2", {some, places, int_scalar(0)}),
                        some.index_select(0, places.to(at::kLong))));
}

TEST(Limits, ARequestEndsAtItsDeadline) {
  const auto meta = doubling(3, "ConcatV2");
  const auto model = ExecutableModel::from(meta, {});
  const at::Tensor x = at::ones({1});
  {
    const ComputeDeadline passed(Deadline::at(Deadline::Clock::now() - std::chrono::hours(1)));
    EXPECT_THROW(model.run("f", {{"x", x}}), DeadlineExceeded);
    const ComputeDeadline later(Deadline::after(std::chrono::hours(1)));
    EXPECT_NO_THROW(model.run("f", {{"x", x}}));
  }
  EXPECT_NO_THROW(model.run("f", {{"x", x}}));
}

TEST(Limits, RequestsOfAllModelsShareAPool) {
  const auto pool = std::make_shared<MemoryPool>(8 * kMegabyte);
  std::vector<NodeDef> nodes{
      graph::constant_node("size", TensorValue::vector<std::int32_t>({6 << 20})),
      make_node("value", "Cast", {"x"}, {{"DstT", DataType::kUint8}}),
      make_node("all", "Fill", {"size", "value"}),
      make_node("axes", "Const", {}, {{"value", TensorValue::vector<std::int32_t>({0})}}),
      make_node("max", "Max", {"all", "axes"}),
      make_node("y", "Cast", {"max"}, {{"DstT", DataType::kFloat}})};
  const auto meta = model_of(nodes);
  const auto first = ExecutableModel::from(meta, {}, {.memory = pool});
  const auto second = ExecutableModel::from(meta, {}, {.memory = pool});
  const at::Tensor x = at::scalar_tensor(3.0F);
  EXPECT_NO_THROW(first.run("f", {{"x", x}}));
  EXPECT_NO_THROW(second.run("f", {{"x", x}}));
  EXPECT_EQ(pool->taken(), 0);
  // Memory that another request holds.
  ASSERT_TRUE(pool->take(3 * kMegabyte));
  EXPECT_THAT(message_of([&] {
                first.run("f", {{"x", x}});
              }),
              AllOf(HasSubstr("node all (Fill)"), HasSubstr("--max-server-live-bytes")));
  EXPECT_EQ(pool->taken(), 3 * kMegabyte);
  pool->give_back(3 * kMegabyte);
  EXPECT_NO_THROW(second.run("f", {{"x", x}}));
}

TEST(Limits, AStepTakesWhatItNeedsFromThePoolBeforeItIsMade) {
  MemoryPool pool(8 * kMegabyte);
  {
    Budget budget({}, &pool);
    {
      const Budget::Step step(budget);
      budget.check_room(3 * kMegabyte);
      budget.check_room(2 * kMegabyte);
      EXPECT_EQ(pool.taken(), 3 * kMegabyte);
      EXPECT_FALSE(pool.take(6 * kMegabyte));
      // Reserved memory becomes held memory.
      budget.hold(Slots{at::empty({3 * kMegabyte}, at::kByte)}, {});
      EXPECT_EQ(pool.taken(), 3 * kMegabyte);
      const Budget::Step inner(budget);
      EXPECT_THROW(budget.check_room(6 * kMegabyte), ResourceExhausted);
      budget.check_room(5 * kMegabyte);
      EXPECT_EQ(pool.taken(), 8 * kMegabyte);
    }
    EXPECT_EQ(budget.live_bytes(), 3 * kMegabyte);
  }
  EXPECT_EQ(pool.taken(), 0);
}

TEST(Limits, HoldForTheLoadToo) {
  auto meta = model_of({make_node("y", "Neg", {"x"}),
                        graph::constant_node("size", TensorValue::vector<std::int32_t>({1 << 20})),
                        graph::constant_node("one", TensorValue::scalar(1.0F)),
                        make_node("init", "Fill", {"size", "one"})});
  meta.collections["legacy_init_op"] = {graph::Collection::Nodes{{"init"}}};
  EXPECT_THAT(message_of([&] { ExecutableModel::from(meta, {}, {.limits = kSmall}); }),
              AllOf(HasSubstr("node init (Fill)"), HasSubstr("--max-live-bytes")));
  EXPECT_NO_THROW(ExecutableModel::from(meta, {}));
}

}  // namespace
}  // namespace muster::executor
