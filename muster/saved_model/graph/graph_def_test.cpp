#include "muster/saved_model/graph/graph_def.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <limits>

#include "muster/base/error.h"
#include "muster/graph.pb.h"
#include "muster/saved_model/graph/graph_text.h"

namespace muster::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

template <typename Proto>
Proto from_text(const std::string& text) {
  Proto message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// A Const node whose value is this TensorProto, as protobuf writes it.
std::string const_node(const std::string& tensor) {
  return from_text<proto::GraphDef>(
             "node { name: 'c' op: 'Const' attr { key: 'value' value { tensor { " + tensor +
             " } } } }")
      .SerializeAsString();
}

TensorValue decode_const(const std::string& tensor, const GraphLimits& limits = {}) {
  return attr<TensorValue>(decode_graph(const_node(tensor), limits).nodes.at(0), "value");
}

// Every field that a graph has.
constexpr const char* kFullGraph = R"(
  node {
    name: "a" op: "Const" device: "/cpu:0"
    attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 0.5 } } }
    attr { key: "_shapes" value { list { shape { dim { size: -1 } dim {} } shape { unknown_rank: true } } } }
    attr { key: "_numbers" value { list { i: -1 i: 300 } } }
    attr { key: "_floats" value { list { f: 1.5 f: -0.0 } } }
    attr { key: "_bools" value { list { b: true b: false } } }
    attr { key: "_types" value { list { type: DT_INT64 type: DT_STRING_REF } } }
    attr { key: "_texts" value { list { s: "x" s: "" } } }
    attr { key: "_functions" value { list { func { name: "f" } } } }
    attr { key: "_tensors" value { list { tensor { dtype: DT_INT32 tensor_shape { dim { size: 2 } } tensor_content: "\001\000\000\000\377\377\377\377" } } } }
    attr { key: "_empty" value { list {} } }
    attr { key: "_zero" value { i: 0 } }
    attr { key: "_false" value { b: false } }
    attr { key: "_none" value {} }
  }
  node {
    name: "b" op: "f" input: "a" input: "a:0" input: "^a"
    attr { key: "T" value { type: DT_FLOAT } }
    attr { key: "text" value { s: "\000\377" } }
    attr { key: "nested" value { func { name: "f" attr { key: "N" value { placeholder: "N" } } } } }
    experimental_debug_info { original_node_names: "b0" }
  }
  library {
    function {
      signature {
        name: "f"
        input_arg { name: "x" type_attr: "T" }
        input_arg { name: "many" type: DT_INT32 number_attr: "N" }
        output_arg { name: "y" type_list_attr: "L" is_ref: true }
        attr { name: "T" type: "type" default_value { type: DT_FLOAT } allowed_values { list { type: DT_FLOAT } } }
        attr { name: "N" type: "int" has_minimum: true minimum: 0 }
        control_output: "done" is_stateful: true description: "text"
      }
      attr { key: "_k" value { f: 2 } }
      arg_attr { key: 1 value { attr { key: "_user_specified_name" value { s: "x" } } } }
      node_def { name: "id" op: "Identity" input: "x" }
      ret { key: "y" value: "id:output:0" }
      control_ret { key: "done" value: "id" }
    }
    gradient { function_name: "f" gradient_func: "g" }
  }
  versions { producer: 987 min_consumer: 12 bad_consumers: 3 }
)";

TEST(GraphDef, PassesThroughAsProtobufWritesIt) {
  const auto message = from_text<proto::GraphDef>(kFullGraph);
  const GraphDef graph = decode_graph(message.SerializeAsString());
  proto::GraphDef again;
  ASSERT_TRUE(again.ParseFromString(encode_graph(graph)));
  google::protobuf::util::MessageDifferencer differencer;
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(message, again)) << difference;
  EXPECT_EQ(decode_graph(encode_graph(graph)), graph);
}

TEST(GraphDef, GivesWhatTheFileSays) {
  const GraphDef graph = decode_graph(from_text<proto::GraphDef>(kFullGraph).SerializeAsString());
  ASSERT_EQ(graph.nodes.size(), 2U);
  const NodeDef& a = graph.nodes[0];
  EXPECT_EQ(a.device, "/cpu:0");
  EXPECT_THAT(attr<TensorValue>(a, "value").values<float>(), ElementsAre(0.5F));
  EXPECT_THAT(attr<AttrList>(a, "_shapes").shapes, ElementsAre(Shape{-1, 0}, Shape::any()));
  EXPECT_THAT(attr<AttrList>(a, "_numbers").ints, ElementsAre(-1, 300));
  EXPECT_THAT(attr<AttrList>(a, "_types").types,
              ElementsAre(DataType::kInt64, DataType::kStringRef));
  EXPECT_THAT(attr<AttrList>(a, "_tensors").tensors.at(0).values<std::int32_t>(),
              ElementsAre(1, -1));
  EXPECT_THAT(graph.nodes[1].inputs, ElementsAre("a", "a:0", "^a"));
  const auto& nested = attr<FunctionRef>(graph.nodes[1], "nested");
  EXPECT_EQ(nested.attrs.at("N"), AttrValue(AttrPlaceholder{"N"}));
  const FunctionDef& function = graph.functions.at(0);
  EXPECT_EQ(function.signature.inputs.at(1).number_attr, "N");
  EXPECT_EQ(function.signature.attrs.at(1).minimum, 0);
  EXPECT_EQ(function.ret.at("y"), "id:output:0");
  EXPECT_EQ(graph.versions.producer, 987);
}

TEST(GraphDef, IsTheSameInTextAndBack) {
  const GraphDef graph = decode_graph(from_text<proto::GraphDef>(kFullGraph).SerializeAsString());
  EXPECT_EQ(parse_graph_text(to_text(graph)), graph);
  EXPECT_THAT(
      to_text({.nodes = {placeholder_node("x", DataType::kFloat, {-1, 3})}}),
      "node {\n  name: \"x\"\n  op: \"Placeholder\"\n"
      "  attr {\n    key: \"dtype\"\n    value {\n      type: DT_FLOAT\n    }\n  }\n"
      "  attr {\n    key: \"shape\"\n    value {\n      shape {\n        dim {\n"
      "          size: -1\n        }\n        dim {\n          size: 3\n        }\n      }\n"
      "    }\n  }\n}\n");
  EXPECT_THAT([] { parse_graph_text("node {\n  name: 3\n}"); },
              ThrowsMessage<DataLoss>(HasSubstr("line 2, column 9")));
}

TEST(GraphDef, RepeatsTheLastValueOfAShortList) {
  EXPECT_THAT(decode_const("dtype: DT_INT64 tensor_shape { dim { size: 4 } } int64_val: [7, -2]")
                  .values<std::int64_t>(),
              ElementsAre(7, -2, -2, -2));
  EXPECT_THAT(decode_const("dtype: DT_DOUBLE tensor_shape { dim { size: 2 } }").values<double>(),
              ElementsAre(0, 0));
  EXPECT_THAT(
      decode_const("dtype: DT_STRING tensor_shape { dim { size: 2 } } string_val: 'ab'").strings,
      ElementsAre("ab", "ab"));
  EXPECT_EQ(
      decode_const("dtype: DT_COMPLEX64 tensor_shape { dim { size: 2 } } scomplex_val: [1, 2]")
          .bytes.size(),
      16U);
  EXPECT_EQ(decode_const("dtype: DT_BOOL tensor_shape { dim { size: 3 } } bool_val: true").bytes,
            "\1\1\1");
  EXPECT_EQ(decode_const("dtype: DT_HALF tensor_shape {} half_val: 15360").bytes,
            std::string("\x00\x3c", 2));
  EXPECT_THAT(decode_const("dtype: DT_INT8 tensor_shape { dim { size: 2 } } int_val: -3")
                  .values<std::int8_t>(),
              ElementsAre(-3, -3));
}

TEST(GraphDef, WritesConstantsShort) {
  for (const TensorValue& value :
       {TensorValue::scalar<std::int8_t>(-3), TensorValue::scalar<std::uint8_t>(200),
        TensorValue::vector<std::int64_t>({-5, -5, -5}), TensorValue::vector<float>({1, 2, 3}),
        TensorValue::of<double>({0, 3}, {}), TensorValue::of_strings({2}, {"a", "a"}),
        TensorValue::scalar(std::numeric_limits<float>::quiet_NaN()),
        TensorValue{DataType::kComplex64, {2}, std::string("abcdefghabcdefgh")},
        TensorValue{DataType::kBfloat16, {}, std::string("\xff\xff")},
        TensorValue{DataType::kFloat8E5m2, {3}, std::string("zzz")},
        TensorValue{DataType::kBool, {2}, std::string("\0\1", 2)}}) {
    const GraphDef graph{.nodes = {constant_node("c", value)}};
    EXPECT_EQ(decode_graph(encode_graph(graph)), graph) << name_of(value.dtype);
  }
  const std::vector<float> many(1'000'000, 2.5F);
  EXPECT_LT(encode_graph({.nodes = {constant_node("c", TensorValue::vector(many))}}).size(), 100U);
}

TEST(GraphDef, RefusesConstantsWhoseValuesAndShapeDisagree) {
  for (const char* bad :
       {"dtype: DT_FLOAT tensor_shape { dim { size: 1 } } float_val: [1, 2]",
        "dtype: DT_FLOAT tensor_shape { dim { size: 2 } } tensor_content: 'abc'",
        "dtype: DT_STRING tensor_shape {} string_val: ['a', 'b']",
        "dtype: DT_FLOAT tensor_shape { dim { size: -1 } }",
        "dtype: DT_FLOAT tensor_shape { unknown_rank: true }",
        "dtype: DT_FLOAT_REF tensor_shape {}", "tensor_shape {}",
        "dtype: DT_COMPLEX64 tensor_shape { dim { size: 2 } } scomplex_val: [1, 2, 3]"}) {
    EXPECT_THAT([&] { decode_const(bad); },
                ThrowsMessage<DataLoss>(HasSubstr("node 'c': attribute 'value': ")))
        << bad;
  }
  EXPECT_THROW(TensorValue::of<float>({3}, std::vector<float>{1, 2}), InvalidArgument);
  EXPECT_THROW(TensorValue::scalar(1.0F).values<double>(), InvalidArgument);
}

TEST(GraphDef, TakesNoMemoryForSizesThatAFileOnlyClaims) {
  const char* huge = "dtype: DT_FLOAT tensor_shape { dim { size: 4611686018427387904 } }";
  EXPECT_THAT([&] { decode_const(huge); },
              ThrowsMessage<ResourceExhausted>(HasSubstr("GraphLimits::tensor_bytes")));
  EXPECT_THAT(
      [&] {
        decode_const("dtype: DT_FLOAT tensor_shape { dim { size: 100 } }", {.repeated_bytes = 399});
      },
      ThrowsMessage<ResourceExhausted>(HasSubstr("GraphLimits::repeated_bytes")));
  EXPECT_THAT(
      [&] {
        decode_const("dtype: DT_STRING tensor_shape { dim { size: 100 } } string_val: 'x'",
                     {.repeated_bytes = 2'000});
      },
      ThrowsMessage<ResourceExhausted>(HasSubstr("GraphLimits::repeated_bytes")));
  // The limit is for all constants together.
  const std::string one = const_node("dtype: DT_FLOAT tensor_shape { dim { size: 60 } }");
  EXPECT_NO_THROW(decode_graph(one, {.repeated_bytes = 300}));
  EXPECT_THROW(decode_graph(one + one, {.repeated_bytes = 300}), ResourceExhausted);
}

TEST(GraphDef, KeepsToItsLimits) {
  const GraphDef two{.nodes = {{.name = "first", .op = "NoOp", .attrs = {{"a", 1}, {"b", 2}}},
                               {.name = "second", .op = "NoOp", .inputs = {"^first", "^first"}}}};
  const std::string bytes = encode_graph(two);
  EXPECT_EQ(decode_graph(bytes), two);
  const auto error = [&](const GraphLimits& limits) -> std::string {
    try {
      decode_graph(bytes, limits);
    } catch (const ResourceExhausted& caught) {
      return caught.what();
    }
    return "";
  };
  EXPECT_THAT(error({.nodes = 1}), HasSubstr("GraphLimits::nodes"));
  EXPECT_THAT(error({.name_bytes = 5}), HasSubstr("the name of a node has 6 bytes"));
  EXPECT_THAT(error({.inputs_per_node = 1}), HasSubstr("node 'second': the number of inputs is 2"));
  EXPECT_THAT(error({.attrs_per_node = 1}),
              HasSubstr("node 'first': the number of attributes is 2"));
  EXPECT_THAT(error({.attr_bytes = 1}), HasSubstr("node 'first': attribute 'a'"));
  EXPECT_THAT(error({.parts = 5}), HasSubstr("GraphLimits::parts"));
  EXPECT_THAT(error({.file_bytes = bytes.size() - 1}), HasSubstr("GraphLimits::file_bytes"));
}

TEST(GraphDef, RefusesAttributesNestedTooDeep) {
  AttrValue nested = FunctionRef{"f", {}};
  for (int i = 0; i < 20; ++i) nested = FunctionRef{"f", {{"a", nested}}};
  const std::string bytes =
      encode_graph({.nodes = {{.name = "n", .op = "f", .attrs = {{"deep", nested}}}}});
  EXPECT_THAT([&] { decode_graph(bytes); },
              ThrowsMessage<ResourceExhausted>(HasSubstr("GraphLimits::depth")));
  EXPECT_NO_THROW(decode_graph(bytes, {.depth = 21}));
}

TEST(GraphDef, RefusesDamage) {
  const std::string whole = from_text<proto::GraphDef>(kFullGraph).SerializeAsString();
  EXPECT_THROW(decode_graph(std::string_view(whole).substr(0, whole.size() - 1)), DataLoss);
  EXPECT_THROW(decode_graph("\x0a"), DataLoss);
  EXPECT_THAT(
      [] { decode_graph(from_text<proto::GraphDef>("node { op: 'A' }").SerializeAsString()); },
      ThrowsMessage<DataLoss>(HasSubstr("a node without a name")));
  EXPECT_THAT(
      [] { decode_graph(from_text<proto::GraphDef>("node { name: 'x' }").SerializeAsString()); },
      ThrowsMessage<DataLoss>(HasSubstr("node 'x': no operation")));
}

TEST(ParseInput, KnowsAllForms) {
  EXPECT_EQ(parse_input("a/b"), (InputRef{.node = "a/b"}));
  EXPECT_EQ(parse_input("a:12"), (InputRef{.node = "a", .index = 12}));
  EXPECT_EQ(parse_input("^a"), (InputRef{.node = "a", .control = true}));
  EXPECT_EQ(parse_input("a:out:3"), (InputRef{.node = "a", .output = "out", .index = 3}));
  for (const char* bad :
       {"", "^", ":0", "a:", "a:x", "a:-1", "^a:0", "a:o:", "a:o:1:2", "a:99999999999"}) {
    EXPECT_THROW(parse_input(bad), InvalidArgument) << bad;
  }
}

TEST(Attr, NamesNodeAndAttributeWhenItIsMissingOrOfAnotherKind) {
  const NodeDef node{.name = "n", .op = "Cast", .attrs = {{"T", DataType::kFloat}}};
  EXPECT_EQ(attr<DataType>(node, "T"), DataType::kFloat);
  EXPECT_EQ(attr_or<bool>(node, "Truncate", true), true);
  EXPECT_THAT([&] { attr<bool>(node, "Truncate"); },
              ThrowsMessage<InvalidArgument>("node 'n' (Cast) has no attribute 'Truncate'"));
  EXPECT_THAT([&] { attr_or<bool>(node, "T", true); },
              ThrowsMessage<InvalidArgument>(HasSubstr("unexpected kind, type")));
}

TEST(DataTypes, HaveNamesAndReferences) {
  EXPECT_EQ(name_of(DataType::kBfloat16), "DT_BFLOAT16");
  EXPECT_EQ(name_of(DataType::kInt64Ref), "DT_INT64_REF");
  EXPECT_EQ(data_type_named("DT_UINT2_REF"), static_cast<DataType>(132));
  EXPECT_EQ(data_type_named("DT_NONE"), std::nullopt);
  for (const int bad : {-1, 33, 100, 133}) EXPECT_EQ(data_type_from(bad), std::nullopt) << bad;
  // Against protobuf's own table.
  for (int number = 0; number < 140; ++number) {
    EXPECT_EQ(data_type_from(number).has_value(), proto::DataType_IsValid(number)) << number;
    if (proto::DataType_IsValid(number)) {
      EXPECT_EQ(name_of(static_cast<DataType>(number)), proto::DataType_Name(number));
    }
  }
  EXPECT_EQ(without_ref(DataType::kFloatRef), DataType::kFloat);
  EXPECT_EQ(with_ref(DataType::kFloat), DataType::kFloatRef);
}

}  // namespace
}  // namespace muster::graph
