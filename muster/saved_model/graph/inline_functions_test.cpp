#include "muster/saved_model/graph/inline_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/saved_model/graph/check.h"
#include "muster/saved_model/graph/op_outputs_internal.h"
#include "muster/saved_model/graph/op_registry.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/message_of.h"

namespace muster::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;

const AttrValue kOneFloat = AttrValue::list(std::vector<DataType>{DataType::kFloat});
const AttrValue kTwoFloats =
    AttrValue::list(std::vector<DataType>{DataType::kFloat, DataType::kFloat});

NodeDef call_of(const std::string& name, const std::string& function,
                std::vector<std::string> inputs) {
  return {.name = name,
          .op = "PartitionedCall",
          .inputs = std::move(inputs),
          .attrs = {{"f", FunctionRef{function, {{"U", DataType::kFloat}}}},
                    {"Tin", kOneFloat},
                    {"Tout", kTwoFloats}}};
}

// Halves its argument; the halves change places on the way through two functions.
MetaGraph model_with_functions() {
  const ArgDef x{.name = "x", .type = DataType::kFloat};
  FunctionDef halves{.signature = {.name = "halves",
                                   .inputs = {x},
                                   .outputs = {{.name = "a", .type = DataType::kFloat},
                                               {.name = "b", .type = DataType::kFloat}}}};
  halves.nodes = {{.name = "axis", .op = "Const"},
                  {.name = "all",
                   .op = "Split",
                   .inputs = {"axis:output:0", "x", "^axis"},
                   .attrs = {{"T", AttrPlaceholder{"U"}}, {"num_split", 2}}},
                  {.name = "top", .op = "TopKV2", .inputs = {"all:output:1"}}};
  halves.ret = {{"a", "all:output:1"}, {"b", "top:indices:0"}};
  FunctionDef outer{.signature = halves.signature};
  outer.signature.name = "outer";
  outer.nodes = {call_of("inner", "halves", {"x"})};
  outer.ret = {{"a", "inner:output:1"}, {"b", "inner:output:0"}};
  MetaGraph meta{.tags = {"serve"}};
  meta.graph.nodes = {placeholder_node("x", DataType::kFloat, {-1}),
                      call_of("call", "outer", {"x"}),
                      {.name = "sum", .op = "Add", .inputs = {"call", "call:1", "^call"}}};
  meta.graph.functions = {halves, outer};
  meta.signatures["f"].outputs["y"].name = "call:1";
  return meta;
}

const NodeDef& named(const MetaGraph& meta, const std::string& name) {
  const auto found = std::find_if(meta.graph.nodes.begin(), meta.graph.nodes.end(),
                                  [&](const NodeDef& node) { return node.name == name; });
  if (found == meta.graph.nodes.end()) throw NotFound("no node '{}'", name);
  return *found;
}

TEST(InlineFunctions, PutsBodiesInThePlaceOfCalls) {
  const MetaGraph flat = inline_functions(model_with_functions());
  check_graph(flat.graph);
  EXPECT_THAT(flat.graph.functions, IsEmpty());
  EXPECT_THAT(named(flat, "sum").inputs,
              ElementsAre("call/inner/top:1", "call/inner/all:1", "^call"));
  const NodeDef& split = named(flat, "call/inner/all");
  EXPECT_THAT(split.inputs, ElementsAre("call/inner/axis", "x", "^call/inner/axis"));
  EXPECT_EQ(attr<DataType>(split, "T"), DataType::kFloat);
  EXPECT_EQ(named(flat, "call").op, "NoOp");
  EXPECT_EQ(flat.signatures.at("f").outputs.at("y").name, "call/inner/all:1");
}

TEST(InlineFunctions, LeavesAGraphWithoutFunctionsAsItIs) {
  MetaGraph plain;
  plain.graph.nodes = {placeholder_node("x", DataType::kFloat, {-1})};
  EXPECT_EQ(inline_functions(plain), plain);
}

TEST(InlineFunctions, SaysWhatItCannotInline) {
  auto meta = model_with_functions();
  meta.graph.functions[0].ret["b"] = "top:places:0";
  EXPECT_THAT(message_of([&] { inline_functions(meta); }),
              HasSubstr("function 'halves': node 'top' (TopKV2) has no output 'places'"));
  meta = model_with_functions();
  meta.graph.nodes[1].inputs.clear();
  EXPECT_THAT(message_of([&] { inline_functions(meta); }),
              HasSubstr("gives 0 values to the function 'outer', which takes 1"));
  EXPECT_THROW(inline_functions(model_with_functions(), {.nodes = 4}), ResourceExhausted);
}

std::string described(const OpDef& op) {
  std::string outputs;
  for (const ArgDef& output : op.outputs) {
    const auto& number = output.number_attr.empty() ? output.type_list_attr : output.number_attr;
    outputs += (outputs.empty() ? "" : " ") + output.name + (number.empty() ? "" : "*" + number);
  }
  return outputs;
}

TEST(InlineFunctions, KnowsTheOutputsOfOperationsAsTensorFlowDoes) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto registry = OpRegistry::read(data / "tensorflow" / "ops.pbtxt.xz");
  for (const char* name : {"CTCGreedyDecoder", "FusedBatchNormV3", "ParseExampleV2", "SparseCross",
                           "Switch", "TensorListPopBack", "TopKV2", "Unique"}) {
    EXPECT_EQ(several_outputs(name), described(*registry.find(name))) << name;
  }
  EXPECT_EQ(several_outputs("Split"), "");
}

}  // namespace
}  // namespace muster::graph
