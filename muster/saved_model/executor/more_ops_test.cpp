#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/records/example_builder.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/executor/one_node_internal.h"

// Values are those of the examples in TensorFlow's documentation, or computed by hand.
namespace muster::executor {
namespace {

using graph::AttrValue;
using graph::DataType;
using graph::NodeDef;
using graph::TensorValue;
using ::testing::ElementsAre;

using Longs = std::vector<std::int64_t>;

std::vector<Value> outputs_of(const std::string& op, const std::vector<Value>& inputs,
                              graph::Attrs attrs, int outputs) {
  return run_one_node(op, inputs, std::move(attrs), outputs);
}

at::Tensor output_of(const std::string& op, const std::vector<Value>& inputs,
                     graph::Attrs attrs = {}) {
  return std::get<at::Tensor>(run_one_node(op, inputs, std::move(attrs), 1)[0]);
}

at::Tensor float_tensor(std::vector<float> values, Longs shape) {
  return at::tensor(values, at::kFloat).reshape(shape);
}
at::Tensor int_tensor(Longs values, Longs shape) {
  return at::tensor(values, at::kLong).to(at::kInt).reshape(shape);
}

void expect_same(const Value& found, const at::Tensor& wanted) {
  const auto& tensor = std::get<at::Tensor>(found);
  EXPECT_EQ(tensor.scalar_type(), wanted.scalar_type());
  EXPECT_TRUE(tensor.equal(wanted)) << tensor << " and not " << wanted;
}

TEST(Values, OfSizesThatLibtorchCannotCountAreRefused) {
  const TensorValue none{.dtype = DataType::kFloat, .shape = {std::int64_t{1} << 62, 5, 0}};
  EXPECT_THROW(to_value(none), InvalidArgument);
}

TEST(DynamicOps, PartitionRows) {
  const auto parts =
      outputs_of("DynamicPartition",
                 {float_tensor({10, 20, 30, 40, 50}, {5}), int_tensor({0, 0, 1, 1, 0}, {5})},
                 {{"num_partitions", 2}}, 2);
  expect_same(parts[0], float_tensor({10, 20, 50}, {3}));
  expect_same(parts[1], float_tensor({30, 40}, {2}));
  EXPECT_THROW(outputs_of("DynamicPartition", {float_tensor({1}, {1}), int_tensor({2}, {1})},
                          {{"num_partitions", 2}}, 2),
               InvalidArgument);
}

TEST(DynamicOps, StitchRows) {
  expect_same(
      output_of("DynamicStitch",
                {int_tensor({6}, {}), int_tensor({4, 1}, {2}), int_tensor({5, 2, 0, 3}, {2, 2}),
                 float_tensor({61, 62}, {2}), float_tensor({41, 42, 11, 12}, {2, 2}),
                 float_tensor({51, 52, 21, 22, 1, 2, 31, 32}, {2, 2, 2})},
                {{"N", 3}}),
      float_tensor({1, 2, 11, 12, 21, 22, 31, 32, 41, 42, 51, 52, 61, 62}, {7, 2}));
  EXPECT_THROW(output_of("DynamicStitch", {int_tensor({1 << 30}, {1}), float_tensor({1}, {1})}),
               ResourceExhausted);
}

TEST(BlockOps, MoveSpaceToBatchAndBack) {
  const at::Tensor image = at::arange(1, 17, at::kFloat).reshape({1, 4, 4, 1});
  const at::Tensor block = int_tensor({2, 2}, {2});
  const at::Tensor none = int_tensor({0, 0, 0, 0}, {2, 2});
  const at::Tensor batch =
      float_tensor({1, 3, 9, 11, 2, 4, 10, 12, 5, 7, 13, 15, 6, 8, 14, 16}, {4, 2, 2, 1});
  expect_same(output_of("SpaceToBatchND", {image, block, none}), batch);
  expect_same(output_of("BatchToSpaceND", {batch, block, none}), image);
  // Two columns are added in front, and cut off again.
  const at::Tensor rows = at::arange(1, 17, at::kFloat).reshape({2, 2, 4, 1});
  const at::Tensor edges = int_tensor({0, 0, 2, 0}, {2, 2});
  const at::Tensor spread = output_of("SpaceToBatchND", {rows, block, edges});
  expect_same(spread, float_tensor({0, 1, 3, 0, 9,  11, 0, 2, 4, 0, 10, 12,
                                    0, 5, 7, 0, 13, 15, 0, 6, 8, 0, 14, 16},
                                   {8, 1, 3, 1}));
  expect_same(output_of("BatchToSpaceND", {spread, block, edges}), rows);
  EXPECT_THROW(output_of("SpaceToBatchND", {image, int_tensor({3, 2}, {2}), none}),
               InvalidArgument);
}

TEST(BlockOps, MirrorTheEdges) {
  const at::Tensor in = int_tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  const at::Tensor paddings = int_tensor({1, 1, 2, 2}, {2, 2});
  expect_same(output_of("MirrorPad", {in, paddings}, {{"mode", "SYMMETRIC"}}),
              int_tensor({2, 1, 1, 2, 3, 3, 2, 2, 1, 1, 2, 3, 3, 2,
                          5, 4, 4, 5, 6, 6, 5, 5, 4, 4, 5, 6, 6, 5},
                         {4, 7}));
  expect_same(output_of("MirrorPad", {in, paddings}, {{"mode", "REFLECT"}}),
              int_tensor({6, 5, 4, 5, 6, 5, 4, 3, 2, 1, 2, 3, 2, 1,
                          6, 5, 4, 5, 6, 5, 4, 3, 2, 1, 2, 3, 2, 1},
                         {4, 7}));
  EXPECT_THROW(
      output_of("MirrorPad", {in, int_tensor({2, 0, 0, 0}, {2, 2})}, {{"mode", "REFLECT"}}),
      InvalidArgument);
}

TEST(EncodingOps, ReadNumbersFromBytes) {
  const StringTensor bytes({std::string("\1\0\2\0", 4), std::string("\0\1\xff\xff", 4)});
  expect_same(output_of("DecodeRaw", {bytes}, {{"out_type", DataType::kInt16}}),
              at::tensor(Longs{1, 2, 256, -1}).to(at::kShort).reshape({2, 2}));
  expect_same(
      output_of("DecodeRaw", {bytes}, {{"out_type", DataType::kInt16}, {"little_endian", false}}),
      at::tensor(Longs{256, 512, 1, -1}).to(at::kShort).reshape({2, 2}));
  expect_same(output_of("DecodeRaw", {StringTensor({"", ""})}, {{"out_type", DataType::kInt16}}),
              at::empty({2, 0}, at::kShort));
  EXPECT_THROW(output_of("DecodeRaw", {StringTensor({"abc"})}, {{"out_type", DataType::kInt16}}),
               InvalidArgument);
}

TEST(EncodingOps, UseTheWebSafeBase64) {
  const auto text_of = [](const std::string& op, const std::string& text, graph::Attrs attrs = {}) {
    return std::get<StringTensor>(outputs_of(op, {StringTensor({text})}, std::move(attrs), 1)[0])
        .values()[0];
  };
  EXPECT_EQ(text_of("EncodeBase64", "\xfb\xff?"), "-_8_");
  EXPECT_EQ(text_of("EncodeBase64", "a"), "YQ");
  EXPECT_EQ(text_of("EncodeBase64", "a", {{"pad", true}}), "YQ==");
  EXPECT_EQ(text_of("DecodeBase64", "-_8_"), "\xfb\xff?");
  EXPECT_EQ(text_of("DecodeBase64", "YQ=="), "a");
  EXPECT_THROW(text_of("DecodeBase64", "+/8/"), InvalidArgument);
}

TEST(EncodingOps, SplitStrings) {
  const auto parts = [](std::vector<std::string> texts, const std::string& separator,
                        std::int64_t most = -1) {
    const auto out =
        outputs_of("StringSplitV2", {StringTensor(std::move(texts)), StringTensor({separator}, {})},
                   {{"maxsplit", most}}, 3);
    return std::pair(std::get<StringTensor>(out[1]).values(), std::get<at::Tensor>(out[0]));
  };
  const auto [words, places] = parts({"hello world", "a b c"}, "");
  EXPECT_THAT(words, ElementsAre("hello", "world", "a", "b", "c"));
  expect_same(places, at::tensor(Longs{0, 0, 0, 1, 1, 0, 1, 1, 1, 2}).reshape({5, 2}));
  EXPECT_THAT(parts({"1<>2<><>3"}, "<>").first, ElementsAre("1", "2", "", "3"));
  EXPECT_THAT(parts({"1<>2<>3"}, "<>", 1).first, ElementsAre("1", "2<>3"));
  EXPECT_THAT(parts({" 1  2 3 "}, "").first, ElementsAre("1", "2", "3"));
  EXPECT_THAT(parts({" 1  2 3"}, "", 1).first, ElementsAre("1", "2 3"));
}

TEST(RandomOps, DrawWithinTheirBounds) {
  const graph::Attrs seeded{{"dtype", DataType::kFloat}, {"seed", 3}, {"seed2", 4}};
  const at::Tensor drawn = output_of("RandomUniform", {int_tensor({1000}, {1})}, seeded);
  EXPECT_GE(drawn.min().item<float>(), 0);
  EXPECT_LT(drawn.max().item<float>(), 1);
  EXPECT_NEAR(drawn.mean().item<float>(), 0.5, 0.1);
  expect_same(output_of("RandomUniform", {int_tensor({1000}, {1})}, seeded), drawn);
  const at::Tensor whole = output_of(
      "RandomUniformInt", {int_tensor({1000}, {1}), int_tensor({3}, {}), int_tensor({6}, {})});
  EXPECT_EQ(whole.min().item<int>(), 3);
  EXPECT_EQ(whole.max().item<int>(), 5);
  EXPECT_EQ(whole.scalar_type(), at::kInt);
}

TEST(RandomOps, DrawAgainAtEachRequest) {
  graph::MetaGraph meta;
  meta.graph.nodes = {graph::constant_node("size", TensorValue::vector<std::int32_t>({8})),
                      {.name = "y",
                       .op = "RandomUniform",
                       .inputs = {"size"},
                       .attrs = {{"dtype", DataType::kFloat}, {"seed", 1}}}};
  meta.signatures["f"].outputs["y"] = {.name = "y:0", .shape = graph::Shape::any()};
  const auto model = ExecutableModel::from(meta, {});
  const auto first = std::get<at::Tensor>(model.run("f", {}).at("y"));
  EXPECT_FALSE(first.equal(std::get<at::Tensor>(model.run("f", {}).at("y"))));
}

TEST(NnOps, MeasureCrossEntropies) {
  const at::Tensor logits = float_tensor({0, 0, 0, 1, 2, 3}, {2, 3});
  const auto out =
      outputs_of("SparseSoftmaxCrossEntropyWithLogits", {logits, int_tensor({1, 2}, {2})}, {}, 2);
  // log(3), and log(e + e^2 + e^3) - 3
  EXPECT_TRUE(
      at::allclose(std::get<at::Tensor>(out[0]), float_tensor({1.0986123F, 0.4076060F}, {2})));
  const at::Tensor wanted = at::softmax(logits, 1).sub(float_tensor({0, 1, 0, 0, 0, 1}, {2, 3}));
  EXPECT_TRUE(at::allclose(std::get<at::Tensor>(out[1]), wanted));
  const auto dense = outputs_of("SoftmaxCrossEntropyWithLogits",
                                {logits, float_tensor({0, 1, 0, 0, 0, 1}, {2, 3})}, {}, 2);
  EXPECT_TRUE(at::allclose(std::get<at::Tensor>(dense[0]), std::get<at::Tensor>(out[0])));
  EXPECT_TRUE(at::allclose(std::get<at::Tensor>(dense[1]), wanted));
  EXPECT_THROW(
      outputs_of("SparseSoftmaxCrossEntropyWithLogits", {logits, int_tensor({1, 3}, {2})}, {}, 2),
      InvalidArgument);
}

TEST(ParsingOps, ParseOneExample) {
  ExampleBuilder builder;
  builder.add_int("ids", 7).add_int("ids", 9).add_float("x", 0.5F);
  const auto out =
      outputs_of("ParseSingleExample",
                 {StringTensor({std::string(builder.serialize())}, {}), float_tensor({}, {0})},
                 {{"sparse_keys", AttrValue::list(std::vector<std::string>{"ids"})},
                  {"dense_keys", AttrValue::list(std::vector<std::string>{"x"})},
                  {"sparse_types", AttrValue::list({DataType::kInt64})},
                  {"Tdense", AttrValue::list({DataType::kFloat})},
                  {"dense_shapes", AttrValue::list(std::vector<graph::Shape>{graph::Shape{}})},
                  {"num_sparse", 1}},
                 4);
  expect_same(out[0], at::tensor(Longs{0, 1}).reshape({2, 1}));
  expect_same(out[1], at::tensor(Longs{7, 9}));
  expect_same(out[2], at::tensor(Longs{2}));
  expect_same(out[3], at::scalar_tensor(0.5F));
}

// A graph without inputs whose output "y" is asked for.
Value constant_answer(std::vector<NodeDef> nodes) {
  graph::MetaGraph meta;
  meta.graph.nodes = std::move(nodes);
  meta.signatures["f"].outputs["y"] = {.name = "y:0", .shape = graph::Shape::any()};
  return ExecutableModel::from(meta, {}).run("f", {}).at("y");
}

TEST(TensorLists, AreFilledAndStacked) {
  const auto index = [](const char* name, std::int32_t value) {
    return graph::constant_node(name, TensorValue::scalar<std::int32_t>(value));
  };
  const graph::Attrs floats_only{{"element_dtype", DataType::kFloat}};
  const std::vector<NodeDef> nodes{
      graph::constant_node("shape", TensorValue::vector<std::int32_t>({2})),
      graph::constant_node("item", TensorValue::vector<float>({1, 2})),
      index("zero", 0),
      index("two", 2),
      index("three", 3),
      {.name = "empty",
       .op = "TensorListReserve",
       .inputs = {"shape", "three"},
       .attrs = floats_only},
      {.name = "set", .op = "TensorListSetItem", .inputs = {"empty", "two", "item"}},
      {.name = "more", .op = "TensorListPushBack", .inputs = {"set", "item"}},
      {.name = "stack", .op = "TensorListStack", .inputs = {"more", "shape"}},
      {.name = "again", .op = "TensorListFromTensor", .inputs = {"stack", "shape"}},
      {.name = "pop", .op = "TensorListPopBack", .inputs = {"again", "shape"}},
      {.name = "length", .op = "TensorListLength", .inputs = {"pop"}},
      {.name = "get", .op = "TensorListGetItem", .inputs = {"pop", "two", "shape"}},
      {.name = "outside", .op = "TensorListGetItem", .inputs = {"pop", "three", "shape"}}};
  const auto ask = [&](const char* name) {
    auto all = nodes;
    all.push_back({.name = "y", .op = "Identity", .inputs = {name}});
    return constant_answer(all);
  };
  // Items that were never set are zeros.
  expect_same(ask("stack"), float_tensor({0, 0, 0, 0, 1, 2, 1, 2}, {4, 2}));
  expect_same(ask("length"), int_tensor({3}, {}));
  expect_same(ask("pop:1"), float_tensor({1, 2}, {2}));
  expect_same(ask("get"), float_tensor({1, 2}, {2}));
  EXPECT_THROW(ask("outside"), InvalidArgument);
}

TEST(Tables, GrowWhileTheyAreUsed) {
  const std::vector<NodeDef> nodes{
      {.name = "t",
       .op = "MutableHashTableV2",
       .inputs = {},
       .attrs = {{"key_dtype", DataType::kString}, {"value_dtype", DataType::kInt64}}},
      graph::constant_node("keys", TensorValue::of_strings({3}, {"a", "b", "a"})),
      graph::constant_node("values", TensorValue::vector<std::int64_t>({1, 2, 3})),
      graph::constant_node("asked", TensorValue::of_strings({3}, {"b", "c", "a"})),
      graph::constant_node("none", TensorValue::scalar<std::int64_t>(-1)),
      {.name = "insert", .op = "LookupTableInsertV2", .inputs = {"t", "keys", "values"}},
      {.name = "find", .op = "LookupTableFindV2", .inputs = {"t", "asked", "none", "^insert"}},
      {.name = "early", .op = "LookupTableFindV2", .inputs = {"t", "asked", "none"}},
      {.name = "all", .op = "LookupTableExportV2", .inputs = {"t", "^insert"}},
      {.name = "size", .op = "LookupTableSizeV2", .inputs = {"t", "^insert"}}};
  const auto ask = [&](const char* name) {
    auto all = nodes;
    all.push_back({.name = "y", .op = "Identity", .inputs = {name}});
    return constant_answer(all);
  };
  expect_same(ask("find"), at::tensor(Longs{2, -1, 3}));
  expect_same(ask("early"), at::tensor(Longs{-1, -1, -1}));
  expect_same(ask("all:1"), at::tensor(Longs{3, 2}));
  expect_same(ask("size"), at::scalar_tensor(2, at::kLong));
}

}  // namespace
}  // namespace muster::executor
