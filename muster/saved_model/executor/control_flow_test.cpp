#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/testing/message_of.h"

namespace muster::executor {
namespace {

using graph::AttrValue;
using graph::DataType;
using graph::FunctionRef;
using graph::NodeDef;
using graph::TensorValue;
using muster::testing::message_of;
using ::testing::HasSubstr;

NodeDef op_node(std::string name, std::string op, std::vector<std::string> inputs,
                graph::Attrs attrs = {}) {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs = std::move(inputs),
          .attrs = std::move(attrs)};
}

// A function of arguments of one type to one result.
graph::FunctionDef function_def(std::string name, std::vector<std::string> arguments,
                                std::vector<NodeDef> nodes, std::vector<std::string> results) {
  graph::FunctionDef function;
  function.signature.name = std::move(name);
  for (auto& argument : arguments) function.signature.inputs.push_back({.name = argument});
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto key = fmt::format("r{}", i);
    function.signature.outputs.push_back({.name = key});
    function.ret[key] = results[i];
  }
  function.nodes = std::move(nodes);
  return function;
}

// The signature "f" from the float "x" and the bool "p" to "y".
graph::MetaGraph flow_graph(std::vector<NodeDef> nodes, std::vector<graph::FunctionDef> library) {
  graph::MetaGraph meta;
  meta.graph.nodes = std::move(nodes);
  meta.graph.functions = std::move(library);
  auto& signature = meta.signatures["f"];
  for (const auto& [name, type] : {std::pair("x", DataType::kFloat), {"p", DataType::kBool}}) {
    meta.graph.nodes.push_back(graph::placeholder_node(name, type, graph::Shape::any()));
    signature.inputs[name] = {
        .name = std::string(name) + ":0", .dtype = type, .shape = graph::Shape::any()};
  }
  signature.outputs["y"] = {.name = "y:0", .shape = graph::Shape::any()};
  return meta;
}

float flow(const ExecutableModel& model, float x, bool p) {
  const auto out =
      model.run("f", {{"x", at::scalar_tensor(x)}, {"p", at::scalar_tensor(p, at::kBool)}});
  return std::get<at::Tensor>(out.at("y")).item<float>();
}

TEST(ControlFlow, RepeatsABodyWhileItsConditionHolds) {
  const auto model = ExecutableModel::from(
      flow_graph({graph::constant_node("zero", TensorValue::scalar<std::int32_t>(0)),
                  op_node("loop", "StatelessWhile", {"zero", "x"},
                          {{"cond", FunctionRef{"below"}}, {"body", FunctionRef{"twice"}}}),
                  op_node("y", "Identity", {"loop:1"})},
                 {function_def("below", {"i", "v"},
                               {graph::constant_node("ten", TensorValue::scalar<std::int32_t>(10)),
                                op_node("less", "Less", {"i", "ten:output:0"})},
                               {"less:z:0"}),
                  function_def("twice", {"i", "v"},
                               {graph::constant_node("one", TensorValue::scalar<std::int32_t>(1)),
                                op_node("next", "AddV2", {"i", "one:output:0"}),
                                op_node("sum", "AddV2", {"v", "v"})},
                               {"next:z:0", "sum:z:0"})}),
      {});
  EXPECT_EQ(flow(model, 3, true), 3 * 1024);
}

TEST(ControlFlow, CallsTheBranchOfAnIndex) {
  const auto branch = [](const char* name, const char* op) {
    return function_def(name, {"a"}, {op_node("n", op, {"a"})}, {"n:y:0"});
  };
  graph::AttrList branches;
  branches.functions = {FunctionRef{"negative"}, FunctionRef{"square"}};
  const auto model = ExecutableModel::from(
      flow_graph({op_node("index", "Cast", {"p"}, {{"DstT", DataType::kInt32}}),
                  op_node("y", "Case", {"index", "x"}, {{"branches", AttrValue{branches}}})},
                 {branch("negative", "Neg"), branch("square", "Square")}),
      {});
  EXPECT_EQ(flow(model, 3, false), -3);
  EXPECT_EQ(flow(model, 3, true), 9);
}

TEST(ControlFlow, RunsOnlyTheBranchThatASwitchTakes) {
  // As tf.cond of TensorFlow 1 writes it. The branch that is not taken would fail, and a constant
  // belongs to its branch by a control edge alone.
  const auto model = ExecutableModel::from(
      flow_graph({op_node("switch", "Switch", {"p", "p"}), op_node("t", "Identity", {"switch:1"}),
                  op_node("f", "Identity", {"switch"}), op_node("data", "Switch", {"x", "p"}),
                  op_node("no", "Assert", {"none", "data:1"}, {}),
                  graph::constant_node("none", TensorValue::scalar(false)),
                  op_node("fails", "Square", {"data:1", "^no"}),
                  graph::constant_node("seven", TensorValue::scalar(7.0F)),
                  op_node("merge", "Merge", {"constant", "fails"}),
                  op_node("index", "Cast", {"merge:1"}, {{"DstT", DataType::kFloat}}),
                  [] {
                    auto node = graph::constant_node("constant", TensorValue::scalar(7.0F));
                    node.inputs = {"^f"};
                    return node;
                  }(),
                  op_node("y", "AddV2", {"merge", "index"})},
                 {}),
      {});
  EXPECT_EQ(flow(model, 3, false), 7);
  EXPECT_THAT(message_of([&] { flow(model, 3, true); }), HasSubstr("assertion failed"));
}

TEST(ControlFlow, SaysThatAnOutputIsInTheOtherBranch) {
  const auto model = ExecutableModel::from(
      flow_graph({op_node("switch", "Switch", {"x", "p"}), op_node("y", "Neg", {"switch:1"})}, {}),
      {});
  EXPECT_EQ(flow(model, 3, true), -3);
  EXPECT_THAT(message_of([&] { flow(model, 3, false); }), HasSubstr("branch"));
}

TEST(ControlFlow, PassesOverControlEdgesFromInputs) {
  const auto model =
      ExecutableModel::from(flow_graph({op_node("y", "Neg", {"x", "^p", "^x"})}, {}), {});
  EXPECT_EQ(flow(model, 3, true), -3);
}

TEST(ControlFlow, CountsInAVariable) {
  auto meta = flow_graph(
      {op_node("v", "VarHandleOp", {}, {{"dtype", DataType::kFloat}, {"shared_name", "count"}}),
       graph::constant_node("five", TensorValue::scalar(5.0F)),
       op_node("init", "AssignVariableOp", {"v", "five"}),
       op_node("add", "AssignAddVariableOp", {"v", "x"}),
       op_node("sub", "AssignSubVariableOp", {"v", "half", "^add"}),
       graph::constant_node("half", TensorValue::scalar(0.5F)),
       op_node("y", "ReadVariableOp", {"v", "^sub"})},
      {});
  meta.collections["main_op"] = {graph::Collection::Nodes{{"init"}}};
  const auto model = ExecutableModel::from(meta, {});
  EXPECT_EQ(flow(model, 2, true), 6.5F);
  EXPECT_EQ(flow(model, 1, true), 7);
}

}  // namespace
}  // namespace muster::executor
