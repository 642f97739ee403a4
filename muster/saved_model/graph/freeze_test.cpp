#include "muster/saved_model/graph/freeze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/saved_model/graph/check.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::graph {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

constexpr auto kFloat = DataType::kFloat;

NodeDef node(const std::string& name, const std::string& op, std::vector<std::string> inputs,
             Attrs attrs = {{"T", DataType::kFloat}}) {
  return {.name = name, .op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)};
}

NodeDef variable_node(const std::string& name, const Shape& shape) {
  return node(name, "VarHandleOp", {}, {{"dtype", kFloat}, {"shape", shape}, {"shared_name", ""}});
}

NodeDef read_node(const std::string& variable) {
  return node(variable + "/Read", "ReadVariableOp", {variable}, {{"dtype", kFloat}});
}

TensorInfo tensor(const std::string& name, DataType type = kFloat, Shape shape = {-1, 2}) {
  return {.name = name, .sparse = {}, .dtype = type, .shape = std::move(shape)};
}

/// A bundle of float tensors that are filled with 1, 2, 3, ...
BundleReader bundle_of(const Path& prefix,
                       const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  BundleWriter writer(prefix);
  for (const auto& [name, shape] : shapes) {
    std::vector<float> values(static_cast<std::size_t>(*element_count(std::span(shape))));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
    writer.add({.name = name,
                .type = DataType::kFloat,
                .shape = shape,
                .bytes = std::as_bytes(std::span(values))});
  }
  writer.finish();
  return BundleReader(prefix);
}

/// y = relu(x * kernel), with a saver that has the kernel under another name, and more.
MetaGraph dense_graph() {
  MetaGraph meta{.tags = {"serve"}};
  meta.graph.nodes = {
      placeholder_node("x", kFloat, {-1, 2}),
      placeholder_node("unused", kFloat, {-1, 2}),
      variable_node("kernel", {2, 3}),
      read_node("kernel"),
      node("kernel/Identity", "Identity", {"kernel/Read"}),
      node("stopped", "StopGradient", {"x:0", "^unused"}),
      node("MatMul", "MatMul", {"stopped", "kernel/Identity"},
           {{"T", kFloat}, {"transpose_a", false}, {"transpose_b", false}}),
      node("Relu", "Relu", {"MatMul"}),
      node("predictions/y", "Identity", {"Relu"}),
      node("predictions/name", "AsString", {"Relu"}),
      constant_node("file", TensorValue::string_scalar("model")),
      constant_node("names", TensorValue::of_strings({2}, {"other", "model/kernel"})),
      constant_node("slices", TensorValue::of_strings({2}, {"", ""})),
      node("restore", "RestoreV2", {"file", "names", "slices"},
           {{"dtypes", AttrValue::list(std::vector<DataType>{kFloat, kFloat})}}),
      node("restored", "Identity", {"restore:1"}),
      node("assign", "AssignVariableOp", {"kernel", "restored"}, {{"dtype", kFloat}}),
      node("restore_all", "NoOp", {"^assign"}, {}),
  };
  meta.saver = Saver{.filename_tensor = "file:0", .restore_op = "restore_all"};
  meta.signatures["predict"] = {
      .inputs = {{"x", tensor("x:0")}, {"unused", tensor("unused:0")}},
      .outputs = {{"y", tensor("predictions/y:0", kFloat, {-1, 3})},
                  {"name", tensor("predictions/name:0", DataType::kString, {-1, 3})}},
      .method_name = std::string(kPredictMethod)};
  return meta;
}

std::string outline(const GraphDef& graph) {
  std::string text;
  for (const auto& each : graph.nodes) {
    text += each.name + " = " + each.op + "(";
    for (std::size_t i = 0; i < each.inputs.size(); ++i) text += (i ? ", " : "") + each.inputs[i];
    text += ")\n";
  }
  return text;
}

TEST(Freeze, MakesConstantsOfVariablesAndKeepsWhatOutputsNeed) {
  const TempDir dir;
  const auto bundle = bundle_of(dir / "v", {{"model/kernel", {2, 3}}, {"other", {1}}});
  const MetaGraph meta = dense_graph();
  const auto frozen = freeze(meta, meta.signatures.at("predict"), &bundle, {.outputs = {"y"}});
  EXPECT_EQ(outline(frozen.graph), R"(x = Placeholder()
kernel = Const()
MatMul = MatMul(x, kernel)
Relu = Relu(MatMul)
predictions/y = Identity(Relu)
)");
  EXPECT_EQ(attr<TensorValue>(frozen.graph.nodes[1], "value").values<float>(),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(frozen.signature.inputs.contains("x"));
  EXPECT_FALSE(frozen.signature.inputs.contains("unused"));
  EXPECT_NO_THROW(check_graph(frozen.graph));
}

TEST(Freeze, LeavesStringsOutWhereOnlyNumbersAreAskedFor) {
  const TempDir dir;
  const auto bundle = bundle_of(dir / "v", {{"model/kernel", {2, 3}}});
  const MetaGraph meta = dense_graph();
  const auto& predict = meta.signatures.at("predict");
  EXPECT_EQ(freeze(meta, predict, &bundle).signature.outputs.size(), 2U);
  const auto numeric = freeze(meta, predict, &bundle, {.numeric = true});
  EXPECT_EQ(numeric.signature.outputs.size(), 1U);
  EXPECT_THAT(outline(numeric.graph), Not(HasSubstr("AsString")));
  EXPECT_THAT(
      message_of([&] { freeze(meta, predict, &bundle, {.outputs = {"name"}, .numeric = true}); }),
      HasSubstr("no output of the signature is left"));
}

TEST(Freeze, NamesWhatIsMissingOrOfAnotherShape) {
  const TempDir dir;
  const MetaGraph meta = dense_graph();
  const auto& predict = meta.signatures.at("predict");
  const auto empty = bundle_of(dir / "empty", {{"other", {1}}});
  EXPECT_THAT(message_of([&] { freeze(meta, predict, &empty); }),
              AllOf(HasSubstr("'kernel'"), HasSubstr("no 'model/kernel'"), HasSubstr("empty")));
  EXPECT_THAT(message_of([&] { freeze(meta, predict, nullptr); }), HasSubstr("'kernel'"));
  const auto wide = bundle_of(dir / "wide", {{"model/kernel", {2, 4}}});
  EXPECT_THAT(message_of([&] { freeze(meta, predict, &wide); }),
              AllOf(HasSubstr("(2, 3)"), HasSubstr("[2, 4]")));
  EXPECT_THAT(message_of([&] { freeze(meta, predict, &wide, {.outputs = {"z"}}); }),
              AllOf(HasSubstr("no output 'z'"), HasSubstr("name, y")));
}

TEST(Freeze, KeepsToTheLimitBeforeItReadsAVariable) {
  const TempDir dir;
  const auto bundle = bundle_of(dir / "v", {{"model/kernel", {2, 3}}});
  const MetaGraph meta = dense_graph();
  FreezeOptions options;
  options.limits.tensor_bytes = 23;
  EXPECT_THROW(freeze(meta, meta.signatures.at("predict"), &bundle, options), ResourceExhausted);
}

TEST(Freeze, RefusesAVariableThatIsNotJustRead) {
  const TempDir dir;
  const auto bundle = bundle_of(dir / "v", {{"model/kernel", {2, 3}}});
  MetaGraph meta = dense_graph();
  meta.graph.nodes[6] = node("MatMul", "VarIsInitializedOp", {"kernel"});
  EXPECT_THAT(message_of([&] { freeze(meta, meta.signatures.at("predict"), &bundle); }),
              AllOf(HasSubstr("VarIsInitializedOp"), HasSubstr("'MatMul'"), HasSubstr("'kernel'")));
}

TEST(Freeze, DoesArithmeticOnConstantsAndPutsATransposeOfOnesIntoTheReshape) {
  const TempDir dir;
  const auto bundle = bundle_of(dir / "v", {{"variance", {3}}});
  MetaGraph meta{.tags = {"serve"}};
  meta.graph.nodes = {
      placeholder_node("x", kFloat, {-1, 3}),
      variable_node("variance", {3}),
      read_node("variance"),
      constant_node("three", TensorValue::scalar(3.0F)),
      node("add", "AddV2", {"variance/Read", "three"}),
      node("Rsqrt", "Rsqrt", {"add"}),
      node("scaled", "Mul", {"x", "Rsqrt"}),
      constant_node("sizes", TensorValue::vector<std::int32_t>({-1, 1, 3, 1})),
      node("Reshape", "Reshape", {"scaled", "sizes"},
           {{"T", kFloat}, {"Tshape", DataType::kInt32}}),
      constant_node("order", TensorValue::vector<std::int32_t>({0, 2, 3, 1})),
      constant_node("other", TensorValue::vector<std::int32_t>({2, 0, 3, 1})),
      node("y", "Transpose", {"Reshape", "order"}, {{"T", kFloat}, {"Tperm", DataType::kInt32}}),
      node("images", "Neg", {"y"}),
      node("z", "Transpose", {"Reshape", "other"}, {{"T", kFloat}, {"Tperm", DataType::kInt32}}),
  };
  const SignatureDef predict{.inputs = {{"x", tensor("x:0")}},
                             .outputs = {{"images", tensor("images:0")}}};
  const auto frozen = freeze(meta, predict, &bundle);
  EXPECT_EQ(outline(frozen.graph), R"(x = Placeholder()
Rsqrt = Const()
scaled = Mul(x, Rsqrt)
y/shape = Const()
y = Reshape(scaled, y/shape)
images = Neg(y)
)");
  EXPECT_EQ(attr<TensorValue>(frozen.graph.nodes[1], "value").values<float>(),
            (std::vector<float>{0.5F, 1 / std::sqrt(5.0F), 1 / std::sqrt(6.0F)}));
  EXPECT_EQ(attr<TensorValue>(frozen.graph.nodes[3], "value").values<std::int32_t>(),
            (std::vector<std::int32_t>{-1, 3, 1, 1}));
  // One that moves rows stays.
  const SignatureDef moved{.inputs = {{"x", tensor("x:0")}}, .outputs = {{"z", tensor("z:0")}}};
  EXPECT_THAT(outline(freeze(meta, moved, &bundle).graph),
              HasSubstr("z = Transpose(Reshape, other)"));
}

TEST(Freeze, LetsASignatureBeginInsideTheGraph) {
  MetaGraph meta{.tags = {"serve"}};
  meta.graph.nodes = {
      placeholder_node("example", DataType::kString, Shape::any()),
      node("ParseExample", "ParseExample", {"example"}),
      node("x", "Identity", {"ParseExample"}),
      node("y", "Neg", {"x"}),
  };
  const SignatureDef predict{.inputs = {{"x", tensor("x:0")}}, .outputs = {{"y", tensor("y:0")}}};
  const auto frozen = freeze(meta, predict, nullptr, {.numeric = true});
  EXPECT_EQ(outline(frozen.graph), "x = Placeholder()\ny = Neg(x)\n");
  EXPECT_TRUE(frozen.columns.empty());
  EXPECT_EQ(frozen.signature.inputs.at("x").shape, (Shape{-1, 2}));
}

TEST(Freeze, TakesAnInputAsItIsReshapedIfAsked) {
  MetaGraph meta{.tags = {"serve"}};
  meta.graph.nodes = {
      placeholder_node("x", kFloat, {-1, 12}),
      constant_node("sizes", TensorValue::vector<std::int32_t>({-1, 2, 2, 3})),
      node("Reshape", "Reshape", {"x", "sizes"}, {{"T", kFloat}, {"Tshape", DataType::kInt32}}),
      node("y", "Neg", {"Reshape"}),
      node("z", "AddV2", {"x", "x"}),
  };
  SignatureDef predict{.inputs = {{"x", tensor("x:0", kFloat, {-1, 12})}},
                       .outputs = {{"y", tensor("y:0")}}};
  const auto frozen = freeze(meta, predict, nullptr, {.reshaped_inputs = true});
  EXPECT_EQ(outline(frozen.graph), "x = Placeholder()\ny = Neg(x)\n");
  EXPECT_EQ(frozen.signature.inputs.at("x").shape, (Shape{-1, 2, 2, 3}));
  EXPECT_EQ(attr<Shape>(frozen.graph.nodes[0], "shape"), (Shape{-1, 2, 2, 3}));
  // One that is also used as it comes stays as it is.
  predict.outputs.emplace("z", tensor("z:0"));
  EXPECT_EQ(
      freeze(meta, predict, nullptr, {.reshaped_inputs = true}).signature.inputs.at("x").shape,
      (Shape{-1, 12}));
}

TEST(Freeze, TakesBytesThatAreOnlyCastAsFloats) {
  MetaGraph meta{.tags = {"serve"}};
  meta.graph.nodes = {
      placeholder_node("x", DataType::kUint8, {-1, 4}),
      node("Cast", "Cast", {"x"}, {{"SrcT", DataType::kUint8}, {"DstT", kFloat}}),
      node("y", "Neg", {"Cast"}),
      node("size", "Shape", {"x"}, {{"T", DataType::kUint8}, {"out_type", DataType::kInt32}}),
      node("z", "Neg", {"x"}, {{"T", DataType::kUint8}}),
  };
  SignatureDef predict{
      .inputs = {{"x", tensor("x:0", DataType::kUint8, {-1, 4})}},
      .outputs = {{"size", tensor("size:0", DataType::kInt32, {2})}, {"y", tensor("y:0")}}};
  const auto frozen = freeze(meta, predict, nullptr, {.float_inputs = true});
  EXPECT_THAT(outline(frozen.graph),
              AllOf(HasSubstr("y = Neg(x)"), HasSubstr("size = Shape(x)"), Not(HasSubstr("Cast"))));
  EXPECT_EQ(attr<DataType>(frozen.graph.nodes.back(), "T"), kFloat);
  EXPECT_EQ(frozen.signature.inputs.at("x").dtype, kFloat);
  EXPECT_EQ(attr<DataType>(frozen.graph.nodes[0], "dtype"), kFloat);
  predict.outputs.emplace("z", tensor("z:0", DataType::kUint8));
  EXPECT_EQ(freeze(meta, predict, nullptr, {.float_inputs = true}).signature.inputs.at("x").dtype,
            DataType::kUint8);
}

TEST(Freeze, CutsFeatureColumnsOffWhereTheyEnd) {
  const TempDir dir;
  const auto bundle = bundle_of(dir / "v", {{"table", {5, 2}}, {"kernel", {3, 2}}});
  const auto i32 = DataType::kInt32;
  const auto i64 = DataType::kInt64;
  MetaGraph meta{.tags = {"serve"}};
  meta.graph.nodes = {
      placeholder_node("word", DataType::kString, {-1}),
      placeholder_node("age", kFloat, {-1}),
      placeholder_node("height", kFloat, {-1, 2}),
      node("hash", "StringToHashBucketFast", {"word"}, {{"num_buckets", 5}}),
      node("Shape", "Shape", {"word"}, {{"T", DataType::kString}, {"out_type", i32}}),
      constant_node("zero", TensorValue::vector<std::int32_t>({0})),
      constant_node("one", TensorValue::vector<std::int32_t>({1})),
      constant_node("start", TensorValue::scalar<std::int32_t>(0)),
      constant_node("delta", TensorValue::scalar<std::int32_t>(1)),
      constant_node("column", TensorValue::vector<std::int32_t>({-1, 1})),
      node("rows", "StridedSlice", {"Shape", "zero", "one", "one"},
           {{"T", i32}, {"Index", i32}, {"shrink_axis_mask", 1}}),
      node("numbers", "Range", {"start", "rows", "delta"}, {{"Tidx", i32}}),
      variable_node("table", {5, 2}),
      read_node("table"),
      node("sum", "SparseSegmentSumWithNumSegments", {"table/Read", "hash", "numbers", "rows"},
           {{"T", kFloat}, {"Tidx", i64}, {"Tsegmentids", i32}, {"Tnumsegments", i32}}),
      node("buckets", "Bucketize", {"age"}, {{"T", kFloat}}),
      node("bucket", "Cast", {"buckets"}, {{"SrcT", i32}, {"DstT", kFloat}}),
      node("wide", "Reshape", {"bucket", "column"}, {{"T", kFloat}, {"Tshape", i32}}),
      node("concat", "ConcatV2", {"wide", "height", "delta"},
           {{"T", kFloat}, {"N", 2}, {"Tidx", i32}}),
      variable_node("kernel", {3, 2}),
      read_node("kernel"),
      node("product", "MatMul", {"concat", "kernel/Read"}, {{"T", kFloat}}),
      node("logits", "AddV2", {"product", "sum"}),
      node("plain", "Neg", {"height"}),
  };
  const SignatureDef predict{.inputs = {{"word", tensor("word:0", DataType::kString, {-1})},
                                        {"age", tensor("age:0", kFloat, {-1})},
                                        {"height", tensor("height:0")}},
                             .outputs = {{"logits", tensor("logits:0")},
                                         {"id", tensor("hash:0", i64, {-1})},
                                         {"plain", tensor("plain:0")}}};
  const auto frozen = freeze(meta, predict, &bundle, {.numeric = true});
  const auto& inputs = frozen.signature.inputs;
  std::vector<std::string> names;
  for (const auto& each : inputs) names.push_back(each.first);
  EXPECT_THAT(names, ElementsAre("hash", "height", "numbers", "rows", "wide"));
  EXPECT_EQ(frozen.columns.at("hash"), "hash:0");
  EXPECT_FALSE(frozen.columns.contains("height"));
  EXPECT_EQ(inputs.at("wide").shape, (Shape{-1, 1}));
  EXPECT_EQ(inputs.at("hash").dtype, i64);
  EXPECT_EQ(inputs.at("hash").shape, (Shape{-1}));
  EXPECT_EQ(inputs.at("rows").dtype, i32);
  EXPECT_EQ(inputs.at("rows").shape, Shape{});
  EXPECT_FALSE(frozen.signature.outputs.contains("id"));
  EXPECT_TRUE(frozen.signature.outputs.contains("plain"));
  EXPECT_NO_THROW(check_graph(frozen.graph));
  EXPECT_THAT(outline(frozen.graph),
              AllOf(HasSubstr("sum = SparseSegmentSumWithNumSegments(table, hash, numbers, rows)"),
                    HasSubstr("product = MatMul(concat, kernel)"), Not(HasSubstr("Bucketize")),
                    Not(HasSubstr("word"))));
  // Where words may be inputs, only the hash is outside.
  const auto with_words = freeze(meta, predict, &bundle, {.numeric = true, .lookups = true});
  names.clear();
  for (const auto& each : with_words.signature.inputs) names.push_back(each.first);
  EXPECT_THAT(names, ElementsAre("age", "hash", "height", "word"));
}

TEST(Freeze, KeepsTheTableOfAVocabularyFile) {
  const TempDir dir;
  testing::write_bytes(dir / "words.txt", "b\na\nunread\n");
  const auto i64 = DataType::kInt64;
  MetaGraph meta{.tags = {"serve"}};
  meta.graph.nodes = {
      placeholder_node("word", DataType::kString, {-1}),
      constant_node("path", TensorValue::string_scalar("words.txt")),
      constant_node("missing", TensorValue::scalar(std::int64_t{-1})),
      node("table", "HashTableV2", {}, {{"key_dtype", DataType::kString}, {"value_dtype", i64}}),
      node("fill", "InitializeTableFromTextFileV2", {"table", "path"},
           {{"key_index", -2}, {"value_index", -1}, {"vocab_size", 2}}),
      node("id", "LookupTableFindV2", {"table", "word", "missing"},
           {{"Tin", DataType::kString}, {"Tout", i64}})};
  meta.assets = {{.tensor = {.name = "path:0"}, .filename = "words.txt"}};
  const SignatureDef predict{.inputs = {{"word", tensor("word:0", DataType::kString, {-1})}},
                             .outputs = {{"id", tensor("id:0", i64, {-1})}}};
  const auto frozen =
      freeze(meta, predict, nullptr, {.numeric = true, .lookups = true, .assets_dir = dir.path()});
  EXPECT_THAT(outline(frozen.graph), HasSubstr("id = LookupTableFindV2(table, word, missing)"));
  EXPECT_THAT(frozen.tables.at("table").keys.strings, ElementsAre("b", "a"));
  EXPECT_THAT(frozen.tables.at("table").values.values<std::int64_t>(), ElementsAre(0, 1));
  // Without the file it is what comes in, and there is nothing left.
  EXPECT_THROW(freeze(meta, predict, nullptr, {.numeric = true, .lookups = true}), InvalidArgument);
}

}  // namespace
}  // namespace muster::graph
