#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/executor/executable_model.h"
#include "muster/executor/one_node_internal.h"
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
  // What fits is made.
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
