#include "muster/saved_model/onnx/convert.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "muster/onnx.pb.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::onnx {
namespace {

using graph::Attrs;
using graph::AttrValue;
using graph::constant_node;
using graph::DataType;
using graph::FrozenGraph;
using graph::NodeDef;
using graph::placeholder_node;
using graph::Shape;
using graph::TensorValue;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

constexpr auto kFloat = DataType::kFloat;
constexpr auto kInt32 = DataType::kInt32;

NodeDef node(const std::string& name, const std::string& op, std::vector<std::string> inputs,
             Attrs attrs = {}) {
  attrs.emplace("T", kFloat);
  return {.name = name, .op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)};
}

NodeDef floats(const std::string& name, std::vector<std::int64_t> shape) {
  std::vector<float> values(static_cast<std::size_t>(*graph::element_count(std::span(shape))),
                            0.5F);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return constant_node(name, TensorValue::of<float>(std::move(shape), values));
}

NodeDef ints(const std::string& name, const std::vector<std::int32_t>& values) {
  return constant_node(name, TensorValue::vector(values));
}

NodeDef number(const std::string& name, std::int32_t value) {
  return constant_node(name, TensorValue::scalar(value));
}

AttrValue list(std::vector<std::int64_t> values) { return AttrValue::list(std::move(values)); }

graph::TensorInfo tensor(const std::string& name, Shape shape, DataType type = kFloat) {
  return {.name = name, .sparse = {}, .dtype = type, .shape = std::move(shape)};
}

// Rows through two dense layers, with the number of rows computed.
FrozenGraph dense() {
  return {.graph = {.nodes = {placeholder_node("x", kFloat, {-1, 4}),
                              floats("hidden/kernel", {4, 2}),
                              floats("hidden/bias", {2}),
                              node("hidden/MatMul", "MatMul", {"x", "hidden/kernel"},
                                   {{"transpose_a", false}, {"transpose_b", false}}),
                              node("hidden/BiasAdd", "BiasAdd", {"hidden/MatMul", "hidden/bias"}),
                              node("hidden/Relu", "Relu", {"hidden/BiasAdd"}),
                              node("Softmax", "Softmax", {"hidden/Relu"}),
                              number("axis", 1),
                              node("ArgMax", "ArgMax", {"hidden/Relu", "axis"},
                                   {{"Tidx", kInt32}, {"output_type", DataType::kInt64}}),
                              node("Shape", "Shape", {"x"}, {{"out_type", kInt32}}),
                              ints("zero", {0}),
                              ints("one", {1}),
                              number("two", 2),
                              {.name = "batch_size",
                               .op = "StridedSlice",
                               .inputs = {"Shape", "zero", "one", "one"},
                               .attrs = {{"T", kInt32}, {"shrink_axis_mask", 1}}},
                              {.name = "shape",
                               .op = "Pack",
                               .inputs = {"batch_size", "two"},
                               .attrs = {{"T", kInt32}, {"N", 2}, {"axis", 0}}},
                              ints("ids", {7, 8}),
                              {.name = "all",
                               .op = "BroadcastTo",
                               .inputs = {"ids", "shape"},
                               .attrs = {{"T", kInt32}, {"Tidx", kInt32}}},
                              node("head/logits", "Identity", {"hidden/Relu"}),
                              node("head/probabilities", "Identity", {"Softmax"})}},
          .signature = {.inputs = {{"x", tensor("x:0", {-1, 4})}},
                        .outputs = {{"all", tensor("all:0", {-1, 2}, kInt32)},
                                    {"class", tensor("ArgMax:0", {-1}, DataType::kInt64)},
                                    {"logits", tensor("head/logits:0", {-1, 2})},
                                    {"probabilities", tensor("head/probabilities:0", {-1, 2})}}}};
}

TEST(Convert, WritesADenseNetWithItsSizesInInt64) {
  EXPECT_EQ(to_text(convert(dense())), R"(input x: float[batch, 4]
constant hidden/kernel: float[4, 2]
constant hidden/bias: float[2]
constant constant: int64[] = [0]
constant constant_1: int64[1] = [0]
constant constant_2: int64[1] = [2]
constant ids: int32[2] = [7, 8]
hidden/MatMul = MatMul(x, hidden/kernel)
hidden/BiasAdd = Add(hidden/MatMul, hidden/bias)
logits = Relu(hidden/BiasAdd)
probabilities = Softmax(logits, axis=-1)
class = ArgMax(logits, axis=1, keepdims=0)
Shape/Shape = Shape(x)
batch_size/Gather = Gather(Shape/Shape, constant, axis=0)
shape/Unsqueeze = Unsqueeze(batch_size/Gather, constant_1)
shape = Concat(shape/Unsqueeze, constant_2, axis=0)
all = Expand(ids, shape)
output all: int32[batch, 2]
output class: int64[class_0]
output logits: float[batch, 2]
output probabilities: float[batch, 2]
)");
}

// [batch, height, width, channels] through a padded convolution with bias, batch norm, a residual
// and pooling, flattened as TensorFlow would.
FrozenGraph images() {
  std::vector<NodeDef> nodes{
      placeholder_node("image", kFloat, {-1, 6, 6, 3}),
      floats("kernel", {3, 3, 3, 4}),
      floats("bias", {4}),
      floats("scale", {4}),
      floats("mean", {4}),
      constant_node("paddings", TensorValue::of<std::int32_t>(
                                    {4, 2}, std::vector<std::int32_t>{0, 0, 1, 1, 1, 1, 0, 0})),
      node("Pad", "Pad", {"image", "paddings"}, {{"Tpaddings", kInt32}}),
      node("Conv2D", "Conv2D", {"Pad", "kernel"},
           {{"strides", list({1, 2, 2, 1})}, {"padding", "VALID"}, {"data_format", "NHWC"}}),
      node("BiasAdd", "BiasAdd", {"Conv2D", "bias"}, {{"data_format", "NHWC"}}),
      node("norm", "FusedBatchNormV3", {"BiasAdd", "scale", "bias", "mean", "scale"},
           {{"epsilon", 0.25F}, {"is_training", false}, {"data_format", "NHWC"}}),
      node("add", "AddV2", {"norm", "BiasAdd"}),
      node("mul", "Mul", {"add", "scale"}),
      node("pool", "MaxPool", {"mul"},
           {{"ksize", list({1, 2, 2, 1})}, {"strides", list({1, 1, 1, 1})}, {"padding", "SAME"}}),
      ints("flat", {-1, 36}),
      node("Reshape", "Reshape", {"pool", "flat"}, {{"Tshape", kInt32}}),
      ints("over", {1, 2}),
      node("Mean", "Mean", {"pool", "over"}, {{"Tidx", kInt32}, {"keep_dims", false}})};
  return {.graph = {.nodes = std::move(nodes)},
          .signature = {.inputs = {{"image", tensor("image:0", {-1, 6, 6, 3})}},
                        .outputs = {{"flattened", tensor("Reshape:0", {-1, 36})},
                                    {"mean", tensor("Mean:0", {-1, 4})}}}};
}

TEST(Convert, WritesImagesChannelsFirstWithTransposesOnlyAtTheEnds) {
  EXPECT_EQ(to_text(convert(images())), R"(input image: float[batch, 6, 6, 3]
constant kernel: float[4, 3, 3, 3]
constant bias: float[4]
constant scale: float[4]
constant mean_1: float[4]
constant scale_1: float[1, 4, 1, 1]
constant constant: int64[2] = [-1, 36]
image/Transpose = Transpose(image, perm=[0, 3, 1, 2])
Conv2D = Conv(image/Transpose, kernel, bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
norm = BatchNormalization(Conv2D, scale, bias, mean_1, scale, epsilon=0.25)
add = Add(norm, Conv2D)
mul = Mul(add, scale_1)
pool = MaxPool(mul, kernel_shape=[2, 2], pads=[0, 0, 1, 1], strides=[1, 1])
pool/Transpose = Transpose(pool, perm=[0, 2, 3, 1])
flattened = Reshape(pool/Transpose, constant)
mean = ReduceMean(pool, axes=[2, 3], keepdims=0)
output flattened: float[batch, 36]
output mean: float[batch, 4]
)");
}

TEST(Convert, PermutesAKernelWithItsValues) {
  const Model model = convert(images());
  const auto kernel = model.initializers.at(0).value;
  // Element [out, in, h, w] of kernel[h, w, in, out] = ((h * 3 + w) * 3 + in) * 4 + out.
  const auto values = kernel.values<float>();
  const auto at = [&](int out, int in, int h, int w) {
    return values[static_cast<std::size_t>(((out * 3 + in) * 3 + h) * 3 + w)];
  };
  EXPECT_EQ(at(0, 0, 0, 1), 12);
  EXPECT_EQ(at(3, 2, 1, 0), static_cast<float>(((1 * 3 + 0) * 3 + 2) * 4 + 3));
}

TEST(Convert, TakesATransposeAwayThatComesToNothing) {
  FrozenGraph frozen = images();
  // As an export of libtorch's channels-first module begins.
  frozen.graph.nodes[0] = placeholder_node("image", kFloat, {-1, 3, 6, 6});
  frozen.graph.nodes.insert(
      frozen.graph.nodes.begin() + 1,
      {ints("permutation", {0, 2, 3, 1}),
       node("transpose", "Transpose", {"image", "permutation"}, {{"Tperm", kInt32}})});
  for (auto& each : frozen.graph.nodes) {
    if (each.name == "Pad") each.inputs[0] = "transpose";
  }
  frozen.signature.inputs["image"].shape = {-1, 3, 6, 6};
  EXPECT_THAT(to_text(convert(frozen)),
              AllOf(HasSubstr("Conv(image, kernel"), Not(HasSubstr("Transpose(image"))));
}

TEST(Convert, NamesAnOperationWithoutConversionAndItsNode) {
  FrozenGraph frozen = dense();
  frozen.graph.nodes[5].op = "Betainc";
  EXPECT_THAT(message_of([&] { convert(frozen); }),
              AllOf(HasSubstr("Betainc"), HasSubstr("'hidden/Relu'")));
  frozen = dense();
  frozen.graph.nodes[8].inputs[1] = "x";
  EXPECT_THAT(message_of([&] { convert(frozen); }),
              AllOf(HasSubstr("converting ArgMax (node 'ArgMax')"), HasSubstr("axis")));
}

TEST(Convert, GivesAnInputOfAnyRankTheAxesThatItsReadersWant) {
  FrozenGraph frozen = dense();
  frozen.signature.inputs["x"].shape = Shape::any();
  EXPECT_THAT(to_text(convert(frozen)), HasSubstr("input x: float[batch, x_1]\n"));
  // As of a model that halves numbers, whatever their shape.
  FrozenGraph halves{.graph = {.nodes = {placeholder_node("x", kFloat, Shape::any()),
                                         constant_node("half", TensorValue::scalar(0.5F)),
                                         node("y", "Mul", {"x", "half"})}},
                     .signature = {.inputs = {{"x", tensor("x:0", Shape::any())}},
                                   .outputs = {{"y", tensor("y:0", Shape::any())}}}};
  EXPECT_EQ(to_text(convert(halves)), R"(input x: float[batch]
constant half: float[] = [0.5]
y = Mul(x, half)
output y: float[y_0]
)");
}

// Doubles x and counts until the count is 3, or what `x` is then.
FrozenGraph doubling() {
  const auto argument = [](const char* name, DataType type) {
    return graph::ArgDef{.name = name, .type = type};
  };
  graph::FunctionDef condition;
  condition.signature = {.name = "condition",
                         .inputs = {argument("count", kInt32), argument("v", kFloat)},
                         .outputs = {argument("more", DataType::kBool)}};
  condition.nodes = {number("three", 3),
                     node("less", "Less", {"count", "three:output:0"}, {{"T", kInt32}})};
  condition.nodes[1].attrs.insert_or_assign("T", kInt32);
  condition.ret = {{"more", "less:z:0"}};
  graph::FunctionDef body;
  body.signature = {.name = "body",
                    .inputs = {argument("count", kInt32), argument("v", kFloat)},
                    .outputs = {argument("next", kInt32), argument("twice", kFloat)}};
  body.nodes = {number("one", 1), node("add", "AddV2", {"count", "one:output:0"}),
                node("double", "AddV2", {"v", "v"})};
  body.nodes[1].attrs.insert_or_assign("T", kInt32);
  body.ret = {{"next", "add:z:0"}, {"twice", "double:z:0"}};
  NodeDef loop{.name = "loop",
               .op = "StatelessWhile",
               .inputs = {"zero", "x"},
               .attrs = {{"T", AttrValue::list(std::vector{kInt32, kFloat})},
                         {"cond", graph::FunctionRef{"condition"}},
                         {"body", graph::FunctionRef{"body"}}}};
  return {.graph = {.nodes = {placeholder_node("x", kFloat, {-1}), number("zero", 0), loop},
                    .functions = {condition, body}},
          .signature = {
              .inputs = {{"x", tensor("x:0", {-1})}},
              .outputs = {{"count", tensor("loop:0", {}, kInt32)}, {"y", tensor("loop:1", {-1})}}}};
}

TEST(Convert, WritesALoopWithItsRoundInside) {
  const std::string text = to_text(convert(doubling()));
  EXPECT_THAT(text, HasSubstr("input x: float[batch]\n"));
  // Whether there is a first round is computed before.
  EXPECT_THAT(text, HasSubstr("loop/first_condition/less"));
  EXPECT_THAT(text, HasSubstr("= Loop(, loop/first_condition/less, zero, x, body={\n"));
  EXPECT_THAT(text, HasSubstr("input loop/round: int64[]\ninput loop/goes_on_before: bool[]\n"
                              "input loop/value_0: int32\ninput loop/value_1: float\n"));
  EXPECT_THAT(text, HasSubstr("loop/next_1 = Add(loop/value_1, loop/value_1)\n"));
  EXPECT_THAT(text, HasSubstr("output loop/goes_on: bool[]\noutput loop/next_0: int32\n"
                              "output loop/next_1: float\n"));
  EXPECT_THAT(text, HasSubstr("output y: float[y_0]\n"));
  ModelProto written;
  ASSERT_TRUE(written.ParseFromString(encode_model(convert(doubling()))));
  const auto& nodes = written.graph().node();
  const auto loop = std::find_if(nodes.begin(), nodes.end(),
                                 [](const auto& each) { return each.op_type() == "Loop"; });
  ASSERT_NE(loop, nodes.end());
  EXPECT_EQ(loop->attribute(0).g().input_size(), 4);
  EXPECT_EQ(loop->attribute(0).g().output_size(), 3);
  EXPECT_FALSE(loop->attribute(0).g().input(2).type().tensor_type().has_shape());
}

std::string operations_page() {
  const auto operations = converted_operations();
  std::string page = fmt::format(
      "# Operations that become ONNX\n\n`muster export onnx` converts these {} operations of "
      "TensorFlow; another one is an error that names it and its\nnode. This page is written from "
      "the table in the code; [onnx.md](onnx.md) tells the rest.\n\n| TensorFlow | ONNX |\n| --- | "
      "--- |\n",
      operations.size());
  for (const auto& [op, onnx] : operations) page += fmt::format("| `{}` | {} |\n", op, onnx);
  return page;
}

TEST(ConvertedOperations, AreThoseOfThePage) {
  const std::string path = std::string(MUSTER_SOURCE_DIR) + "/docs/formats/onnx_operations.md";
  if (std::getenv("MUSTER_WRITE_PAGES") != nullptr) testing::write_bytes(path, operations_page());
  EXPECT_EQ(testing::read_bytes(path), operations_page())
      << "write the page again: MUSTER_WRITE_PAGES=1 onnx_test";
}

TEST(EncodeModel, WritesWhatONNXReads) {
  Model model = convert(dense());
  model.metadata["signature"] = "predict";
  ModelProto read;
  ASSERT_TRUE(read.ParseFromString(encode_model(model)));
  EXPECT_EQ(read.ir_version(), kIrVersion);
  EXPECT_EQ(read.opset_import(0).version(), kOpset);
  EXPECT_EQ(read.producer_name(), "muster");
  EXPECT_EQ(read.metadata_props(0).value(), "predict");
  EXPECT_EQ(read.graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "batch");
  EXPECT_EQ(read.graph().initializer(0).raw_data().size(), 32U);
  EXPECT_EQ(read.graph().node_size(), 10);
}

}  // namespace
}  // namespace muster::onnx
