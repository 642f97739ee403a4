#pragma once

#include <ATen/Functions.h>

#include <string>
#include <vector>

#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/executor/value.h"

namespace muster::executor {

/// For tests: a graph with the signature "f" from images "x" and words "words" to "probabilities"
/// and "class", a string. Words are hashed before the convolution and product, whose reshape has
/// its sizes from shapes; classes are written out after them.
inline graph::MetaGraph captured_graph() {
  using graph::AttrValue;
  using graph::DataType;
  using graph::Shape;
  graph::MetaGraph meta;
  auto& nodes = meta.graph.nodes;
  const auto add = [&](const std::string& name, const std::string& op,
                       std::vector<std::string> inputs, graph::Attrs attrs) {
    nodes.push_back(
        {.name = name, .op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)});
  };
  const auto constant = [&](const std::string& name, const at::Tensor& value) {
    add(name, "Const", {}, {{"value", to_tensor_value(value)}});
  };
  nodes.push_back(graph::placeholder_node("x", DataType::kFloat, Shape::any()));
  nodes.push_back(graph::placeholder_node("words", DataType::kString, Shape::any()));
  at::manual_seed(1);
  constant("filter", at::randn({3, 3, 2, 4}));
  constant("weights", at::randn({65, 3}));
  for (const int value : {-1, 0, 1, 16}) {
    constant(value < 0 ? "minus_one" : "n" + std::to_string(value), at::full({}, value, at::kInt));
  }
  for (const int value : {0, 1}) {
    constant("v" + std::to_string(value), at::full({1}, value, at::kInt));
  }
  constant("one_column", at::tensor({-1, 1}, at::kInt));
  constant("eight", at::full({}, 8, at::kLong));
  // Words to numbers.
  add("hash", "StringToHashBucketFast", {"words"}, {{"num_buckets", std::int64_t{100}}});
  add("rest", "FloorMod", {"hash", "eight"}, {{"T", DataType::kInt64}});
  add("numbers", "Cast", {"rest"}, {{"SrcT", DataType::kInt64}, {"DstT", DataType::kFloat}});
  add("column", "Reshape", {"numbers", "one_column"}, {{"T", DataType::kFloat}});
  // Images to rows.
  add("conv", "Conv2D", {"x", "filter"},
      {{"T", DataType::kFloat},
       {"data_format", "NHWC"},
       {"padding", "SAME"},
       {"strides", AttrValue::list(std::vector<std::int64_t>{1, 1, 1, 1})}});
  add("active", "Relu", {"conv"}, {{"T", DataType::kFloat}});
  add("shape", "Shape", {"active"}, {{"T", DataType::kFloat}, {"out_type", DataType::kInt32}});
  add("batch", "StridedSlice", {"shape", "v0", "v1", "v1"},
      {{"T", DataType::kInt32}, {"Index", DataType::kInt32}, {"shrink_axis_mask", 1}});
  add("area", "Mul", {"n16", "n1"}, {{"T", DataType::kInt32}});
  add("same_batch", "Mul", {"batch", "n1"}, {{"T", DataType::kInt32}});
  add("sizes", "Pack", {"same_batch", "minus_one"}, {{"T", DataType::kInt32}, {"axis", 0}});
  add("rows", "Reshape", {"active", "sizes"}, {{"T", DataType::kFloat}});
  // Both to probabilities.
  add("all", "ConcatV2", {"rows", "column", "n1"}, {{"T", DataType::kFloat}});
  add("logits", "MatMul", {"all", "weights"}, {{"T", DataType::kFloat}});
  add("p", "Softmax", {"logits"}, {{"T", DataType::kFloat}});
  add("best", "ArgMax", {"logits", "n1"},
      {{"T", DataType::kFloat}, {"output_type", DataType::kInt64}});
  add("text", "AsString", {"best"}, {{"T", DataType::kInt64}});
  auto& signature = meta.signatures["f"];
  signature.inputs["x"] = {.name = "x:0", .dtype = DataType::kFloat, .shape = Shape::any()};
  signature.inputs["words"] = {
      .name = "words:0", .dtype = DataType::kString, .shape = Shape::any()};
  signature.outputs["probabilities"] = {
      .name = "p:0", .dtype = DataType::kFloat, .shape = Shape::any()};
  signature.outputs["class"] = {
      .name = "text:0", .dtype = DataType::kString, .shape = Shape::any()};
  return meta;
}

/// Other inputs of captured_graph() for every number.
inline Values captured_graph_inputs(std::int64_t rows, int number) {
  at::manual_seed(static_cast<std::uint64_t>(number));
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < rows; ++i) words.push_back(std::to_string(number * 1000 + i));
  return {{"x", at::randn({rows, 4, 4, 2})}, {"words", StringTensor(words)}};
}

}  // namespace muster::executor
