#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/testing/message_of.h"

namespace muster::executor {
namespace {

using graph::DataType;
using graph::NodeDef;
using graph::TensorValue;
using muster::testing::message_of;
using ::testing::HasSubstr;

NodeDef loop_node(std::string name, std::string op, std::vector<std::string> inputs) {
  return {.name = std::move(name), .op = std::move(op), .inputs = std::move(inputs), .attrs = {}};
}

NodeDef enter_node(std::string name, std::string input, std::string frame, bool constant = false) {
  NodeDef node = loop_node(std::move(name), "Enter", {std::move(input)});
  node.attrs = {{"frame_name", std::move(frame)}, {"is_constant", constant}};
  return node;
}

NodeDef number_node(std::string name, std::int32_t value, std::string control = "") {
  NodeDef node = graph::constant_node(std::move(name), TensorValue::scalar<std::int32_t>(value));
  if (!control.empty()) node.inputs = {"^" + control};
  return node;
}

// Nodes that tf.while_loop of TensorFlow 1 writes for a counter that goes from 0 to below `limit`,
// an input of the frame that stays, and a value that becomes `next`; nodes begin with `prefix`.
std::vector<NodeDef> counted_loop(const std::string& prefix, const std::string& limit,
                                  const std::string& value, const std::string& next) {
  const auto at = [&](const char* name) { return prefix + name; };
  return {enter_node(at("Enter"), at("zero"), at("frame")),
          enter_node(at("Enter_1"), value, at("frame")),
          enter_node(at("Less/Enter"), limit, at("frame"), /*constant=*/true),
          loop_node(at("Merge"), "Merge", {at("Enter"), at("NextIteration")}),
          loop_node(at("Merge_1"), "Merge", {at("Enter_1"), at("NextIteration_1")}),
          loop_node(at("Less"), "Less", {at("Merge"), at("Less/Enter")}),
          loop_node(at("LoopCond"), "LoopCond", {at("Less")}),
          loop_node(at("Switch"), "Switch", {at("Merge"), at("LoopCond")}),
          loop_node(at("Switch_1"), "Switch", {at("Merge_1"), at("LoopCond")}),
          loop_node(at("Identity"), "Identity", {at("Switch:1")}),
          loop_node(at("Identity_1"), "Identity", {at("Switch_1:1")}),
          number_node(at("one"), 1, at("Identity")),
          loop_node(at("add"), "Add", {at("Identity"), at("one")}),
          loop_node(at("NextIteration"), "NextIteration", {at("add")}),
          loop_node(at("NextIteration_1"), "NextIteration", {next}),
          loop_node(at("Exit"), "Exit", {at("Switch")}),
          loop_node(at("Exit_1"), "Exit", {at("Switch_1")})};
}

// The signature "f" from the float "x" and the int32 "n" to "y".
graph::MetaGraph looping_graph(std::vector<NodeDef> nodes) {
  graph::MetaGraph meta;
  meta.graph.nodes = std::move(nodes);
  auto& signature = meta.signatures["f"];
  for (const auto& [name, type] : {std::pair("x", DataType::kFloat), {"n", DataType::kInt32}}) {
    meta.graph.nodes.push_back(graph::placeholder_node(name, type, graph::Shape::any()));
    signature.inputs[name] = {
        .name = std::string(name) + ":0", .dtype = type, .shape = graph::Shape::any()};
  }
  signature.outputs["y"] = {.name = "y:0", .shape = graph::Shape::any()};
  return meta;
}

float looped(const graph::MetaGraph& meta, float x, int n, const RunLimits& limits = {}) {
  const auto out =
      ExecutableModel::from(meta, {}, {.limits = limits})
          .run("f", {{"x", at::scalar_tensor(x)}, {"n", at::scalar_tensor(n, at::kInt)}});
  return std::get<at::Tensor>(out.at("y")).item<float>();
}

graph::MetaGraph doubling_loop() {
  auto nodes = counted_loop("while/", "n", "x", "while/twice");
  nodes.push_back(number_node("while/zero", 0));
  nodes.push_back(loop_node("while/twice", "Add", {"while/Identity_1", "while/Identity_1"}));
  nodes.push_back(loop_node("y", "Identity", {"while/Exit_1"}));
  return looping_graph(nodes);
}

TEST(WhileLoops, OfTensorFlow1RunTheirBodyWhileTheConditionHolds) {
  EXPECT_EQ(looped(doubling_loop(), 3, 10), 3 * 1024);
  EXPECT_EQ(looped(doubling_loop(), 3, 0), 3);
}

TEST(WhileLoops, OfTensorFlow1MayBeInsideOfEachOther) {
  // Each step of the outer loop adds one n times.
  auto nodes = counted_loop("while/", "n", "x", "while/while/Exit_1");
  const auto inner =
      counted_loop("while/while/", "while/n", "while/Identity_1", "while/while/more");
  nodes.insert(nodes.end(), inner.begin(), inner.end());
  nodes.push_back(number_node("while/zero", 0));
  nodes.push_back(number_node("while/while/zero", 0, "while/Identity"));
  nodes.push_back(enter_node("while/n", "n", "while/frame", /*constant=*/true));
  nodes.push_back(graph::constant_node("while/while/float", TensorValue::scalar(1.0F)));
  nodes.back().inputs = {"^while/while/Identity"};
  nodes.push_back(
      loop_node("while/while/more", "Add", {"while/while/Identity_1", "while/while/float"}));
  nodes.push_back(loop_node("y", "Identity", {"while/Exit_1"}));
  EXPECT_EQ(looped(looping_graph(nodes), 0.5F, 6), 36.5F);
}

TEST(WhileLoops, OfTensorFlow1MayHoldAConditional) {
  // Steps below 2 negate, the others double: only the branch that is taken counts.
  auto nodes = counted_loop("while/", "n", "x", "while/merge");
  nodes.push_back(number_node("while/zero", 0));
  nodes.push_back(number_node("while/two", 2, "while/Identity"));
  nodes.push_back(loop_node("while/early", "Less", {"while/Identity", "while/two"}));
  nodes.push_back(loop_node("while/way", "Switch", {"while/Identity_1", "while/early"}));
  nodes.push_back(loop_node("while/negative", "Neg", {"while/way:1"}));
  nodes.push_back(loop_node("while/twice", "Add", {"while/way", "while/way"}));
  nodes.push_back(loop_node("while/merge", "Merge", {"while/twice", "while/negative"}));
  nodes.push_back(loop_node("y", "Identity", {"while/Exit_1"}));
  EXPECT_EQ(looped(looping_graph(nodes), 3, 1), -3);
  EXPECT_EQ(looped(looping_graph(nodes), 3, 5), 24);
}

// As tf.map_fn of TensorFlow 1 writes it: y is twice the numbers from 0 to below n, each made in a
// step from an item of one array and put into another.
std::vector<NodeDef> mapping_nodes() {
  auto nodes = counted_loop("while/", "n", "out:1", "while/write");
  const auto array = [](const char* name) {
    NodeDef node = loop_node(name, "TensorArrayV3", {"n"});
    node.attrs = {{"dtype", DataType::kFloat}};
    return node;
  };
  const auto keep = [&](const char* name, const char* input) {
    nodes.push_back(enter_node(name, input, "while/frame", /*constant=*/true));
  };
  nodes.push_back(number_node("while/zero", 0));
  nodes.push_back(number_node("one", 1));
  nodes.push_back(array("in"));
  nodes.push_back(array("out"));
  nodes.push_back(loop_node("numbers", "Range", {"while/zero", "n", "one"}));
  nodes.push_back(loop_node("floats", "Cast", {"numbers"}));
  nodes.back().attrs = {{"DstT", DataType::kFloat}};
  nodes.push_back(
      loop_node("scatter", "TensorArrayScatterV3", {"in", "numbers", "floats", "in:1"}));
  keep("while/in", "in");
  keep("while/items", "scatter");
  keep("while/out", "out");
  nodes.push_back(
      loop_node("while/read", "TensorArrayReadV3", {"while/in", "while/Identity", "while/items"}));
  nodes.push_back(loop_node("while/twice", "Add", {"while/read", "while/read"}));
  nodes.push_back(loop_node("while/write", "TensorArrayWriteV3",
                            {"while/out", "while/Identity", "while/twice", "while/Identity_1"}));
  return nodes;
}

TEST(WhileLoops, OfTensorFlow1CollectValuesInTensorArrays) {
  auto nodes = mapping_nodes();
  nodes.push_back(loop_node("all", "TensorArrayGatherV3", {"out", "numbers", "while/Exit_1"}));
  nodes.push_back(loop_node("size", "TensorArraySizeV3", {"out", "while/Exit_1"}));
  nodes.push_back(loop_node("count", "Cast", {"size"}));
  nodes.back().attrs = {{"DstT", DataType::kFloat}};
  nodes.push_back(loop_node("sum", "Sum", {"all", "while/zero"}));
  nodes.push_back(loop_node("y", "Add", {"sum", "count"}));
  // 2 * (0 + 1 + 2 + 3) and 4 items.
  EXPECT_EQ(looped(looping_graph(nodes), 0, 4), 16);
}

TEST(WhileLoops, OfTensorFlow1ReadOnlyWhatWasWritten) {
  auto nodes = mapping_nodes();
  nodes.push_back(loop_node("y", "TensorArrayReadV3", {"out", "one", "out:1"}));
  EXPECT_THAT(message_of([&] { looped(looping_graph(nodes), 0, 4); }),
              HasSubstr("item 1 of the TensorArray was never written"));
  nodes.back().inputs = {"out", "n", "while/Exit_1"};
  EXPECT_THAT(message_of([&] { looped(looping_graph(nodes), 0, 4); }),
              HasSubstr("no item 4 in a TensorArray of 4"));
}

TEST(WhileLoops, OfTensorFlow1EndWithTheBudget) {
  EXPECT_THAT(message_of([] { looped(doubling_loop(), 3, 1'000'000, {.calls = 100}); }),
              HasSubstr("--max-calls"));
  EXPECT_THAT(message_of([] { looped(doubling_loop(), 3, 1'000'000, {.operations = 100}); }),
              HasSubstr("--max-operations"));
}

TEST(WhileLoops, ThatAreNotWholeAreRefusedOnlyWhereTheyAreNeeded) {
  auto meta = doubling_loop();
  std::erase_if(meta.graph.nodes, [](const auto& node) { return node.op == "NextIteration"; });
  EXPECT_THAT(message_of([&] { looped(meta, 3, 1); }),
              HasSubstr("the loop while/frame is not whole"));
  meta.graph.nodes.push_back(loop_node("z", "Neg", {"x"}));
  meta.signatures["f"].outputs["y"].name = "z:0";
  EXPECT_EQ(looped(meta, 3, 1), -3);
  auto inside = doubling_loop();
  inside.signatures["f"].outputs["y"].name = "while/twice:0";
  EXPECT_THROW(looped(inside, 3, 1), Error);
}

}  // namespace
}  // namespace muster::executor
