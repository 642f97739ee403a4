#include "muster/saved_model/graph/op_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/saved_model/graph/check.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/testing/data_dir.h"

namespace muster::graph {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kOps = R"ops(
  op { name: "Const" output_arg { name: "output" type_attr: "dtype" }
       attr { name: "value" type: "tensor" } attr { name: "dtype" type: "type" } }
  op { name: "AddN" input_arg { name: "inputs" type_attr: "T" number_attr: "N" }
       output_arg { name: "sum" type_attr: "T" experimental_full_type { type_id: TFT_X } }
       attr { name: "N" type: "int" has_minimum: true minimum: 1 }
       attr { name: "T" type: "type" allowed_values { list { type: DT_FLOAT type: DT_INT32 } } }
       attr { name: "mode" type: "string" default_value { s: "a" }
              allowed_values { list { s: "a" s: "b" } } } }
  op { name: "Split" input_arg { name: "value" type: DT_FLOAT }
       output_arg { name: "parts" type_list_attr: "Tout" }
       output_arg { name: "rest" type: DT_INT32 }
       attr { name: "Tout" type: "list(type)" has_minimum: true minimum: 1 } }
  op { name: "Assign" input_arg { name: "ref" type_attr: "T" is_ref: true }
       input_arg { name: "value" type_attr: "T" } attr { name: "T" type: "type" } }
  op { name: "Variable" output_arg { name: "ref" type_attr: "T" is_ref: true }
       attr { name: "T" type: "type" } }
)ops";

NodeDef constant(std::string name) {
  return constant_node(std::move(name), TensorValue::scalar(1.0F));
}

NodeDef add(std::vector<std::string> inputs, Attrs attrs) {
  return {.name = "add", .op = "AddN", .inputs = std::move(inputs), .attrs = std::move(attrs)};
}

void expect_refused(const std::vector<NodeDef>& nodes, const std::string& why) {
  const OpRegistry registry = OpRegistry::parse_text(kOps);
  EXPECT_THAT([&] { registry.check({.nodes = nodes}); },
              ThrowsMessage<InvalidArgument>(HasSubstr(why)));
}

TEST(OpRegistry, AcceptsWhatTheOperationsAllow) {
  const OpRegistry registry = OpRegistry::parse_text(kOps);
  EXPECT_EQ(registry.size(), 5U);
  const NodeDef split{
      .name = "split",
      .op = "Split",
      .inputs = {"a", "^b"},
      .attrs = {
          {"Tout", AttrValue::list(std::vector<DataType>{DataType::kFloat, DataType::kString})},
          {"_note", "x"}}};
  EXPECT_NO_THROW(registry.check(
      {.nodes = {constant("a"), constant("b"), split,
                 add({"a", "b:0", "split"}, {{"N", 3}, {"T", DataType::kFloat}, {"mode", "b"}})}}));
}

TEST(OpRegistry, NamesNodeAndFault) {
  const NodeDef a = constant("a");
  const AttrValue real = DataType::kFloat;
  expect_refused({{.name = "x", .op = "Nothing"}},
                 "node 'x' (Nothing): there is no operation 'Nothing'");
  expect_refused({a, add({"a"}, {{"N", 1}})}, "node 'add' (AddN): the attribute 'T' is missing");
  expect_refused({a, add({"a"}, {{"N", 1}, {"T", real}, {"z", 1}})}, "has no attribute 'z'");
  expect_refused({a, add({"a"}, {{"N", 1.0F}, {"T", real}})},
                 "'N' is of kind float instead of int");
  expect_refused({a, add({}, {{"N", 0}, {"T", real}})}, "'N' is 0, below its least, 1");
  expect_refused({a, add({"a"}, {{"N", 1}, {"T", DataType::kString}})},
                 "does not allow: DT_STRING");
  expect_refused({a, add({"a"}, {{"N", 1}, {"T", real}, {"mode", "c"}})}, "does not allow: c");
  expect_refused({a, add({"a"}, {{"N", 2}, {"T", real}})}, "1 inputs where the operation takes 2");
  expect_refused({a, add({"a"}, {{"N", 1}, {"T", DataType::kInt32}})},
                 "input 0, 'a', is DT_FLOAT instead of DT_INT32");
  expect_refused({a, add({"a:1"}, {{"N", 1}, {"T", real}})}, "'a:1' is no output of node 'a'");
  expect_refused({a, add({"a"}, {{"N", std::int64_t{1} << 40}, {"T", real}})},
                 "no number of values");
}

TEST(OpRegistry, TellsReferencesFromValues) {
  const AttrValue real = DataType::kFloat;
  const NodeDef variable{.name = "v", .op = "Variable", .attrs = {{"T", real}}};
  const auto assign = [&](std::string ref, std::string value) {
    return NodeDef{.name = "assign",
                   .op = "Assign",
                   .inputs = {std::move(ref), std::move(value)},
                   .attrs = {{"T", real}}};
  };
  EXPECT_NO_THROW(OpRegistry::parse_text(kOps).check({.nodes = {variable, assign("v", "v")}}));
  expect_refused({constant("a"), variable, assign("a", "v")},
                 "is DT_FLOAT instead of DT_FLOAT_REF");
}

TEST(OpRegistry, ChecksFunctions) {
  const auto graph = [](std::string input, std::string result) -> GraphDef {
    const NodeDef body{.name = "n",
                       .op = "AddN",
                       .inputs = {std::move(input)},
                       .attrs = {{"N", 1}, {"T", DataType::kFloat}}};
    const NodeDef split{
        .name = "s",
        .op = "Split",
        .inputs = {"x"},
        .attrs = {{"Tout", AttrValue::list(std::vector<DataType>{DataType::kString})}}};
    return {.nodes = {constant("a"), {.name = "call", .op = "f", .inputs = {"a"}}},
            .functions = {{.signature = {.name = "f",
                                         .inputs = {{.name = "x", .type = DataType::kFloat}},
                                         .outputs = {{.name = "y", .type = DataType::kFloat}}},
                           .nodes = {body, split},
                           .ret = {{"y", std::move(result)}}}}};
  };
  const OpRegistry registry = OpRegistry::parse_text(kOps);
  EXPECT_NO_THROW(registry.check(graph("x", "n:sum:0")));
  const auto refused = [&](std::string input, std::string result, const char* why) {
    EXPECT_THAT([&] { registry.check(graph(input, result)); },
                ThrowsMessage<InvalidArgument>(HasSubstr(why)));
  };
  refused("s:rest:0", "n:sum:0", "function 'f': node 'n' (AddN): input 0, 's:rest:0', is DT_INT32");
  refused("s:rest:1", "n:sum:0", "'s:rest:1' is no output of node 's'");
  refused("x", "s:parts:0", "function 'f': its result 'y' is DT_STRING instead of DT_FLOAT");
}

TEST(OpRegistry, SaysWhereATextIsWrong) {
  EXPECT_THAT([] { OpRegistry::parse_text("op {\n  name: Abs\n}"); },
              ThrowsMessage<DataLoss>(HasSubstr("line 2, column 9")));
}

TEST(OpRegistry, AcceptsWhatTensorFlowWrote) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto folder = data / "tensorflow";
  const OpRegistry registry = OpRegistry::read(folder / "ops.pbtxt.xz");
  EXPECT_EQ(registry.size(), 1563U);
  for (const char* name : {"half_plus_two/00000123", "static_hash_table", "vars_and_arithmetic"}) {
    const SavedModel model = read_saved_model(folder / name);
    for (const MetaGraph& meta : model.meta_graphs) {
      EXPECT_NO_THROW(check_graph(meta.graph)) << name;
      EXPECT_NO_THROW(registry.check(meta.graph)) << name;
    }
  }
}

}  // namespace
}  // namespace muster::graph
