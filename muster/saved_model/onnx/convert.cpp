#include "muster/saved_model/onnx/convert.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "muster/base/error.h"
#include "muster/saved_model/graph/check.h"
#include "muster/saved_model/onnx/conversion_internal.h"

namespace muster::onnx {
namespace {

using graph::NodeDef;
using graph::TensorValue;

const std::map<std::string_view, OpConversion>& table() {
  static const auto made = [] {
    std::map<std::string_view, OpConversion> all;
    for (const auto part : {pointwise_conversions(), linear_conversions(), image_conversions(),
                            reduction_conversions(), shape_conversions(), lookup_conversions(),
                            column_conversions(), loop_conversions()}) {
      for (const auto& entry : part) all.emplace(entry.op, entry);
    }
    return all;
  }();
  return made;
}

void convert_node(const NodeDef& node, Conversion& to) {
  if (node.op == "Placeholder") return;
  if (node.op == "Const") {
    const auto& value = graph::attr<TensorValue>(node, "value");
    to.hold(node.name, {.type = value.dtype, .rank = value.shape.size(), .constant = &value});
    return;
  }
  const auto found = table().find(node.op);
  if (found == table().end()) {
    throw Unimplemented(
        "no conversion to ONNX: {} (node '{}'). Choose outputs that do not need it, or leave it "
        "out of the model",
        node.op, node.name);
  }
  Call call(node, to);
  try {
    found->second.convert(call);
  } catch (Error& error) {
    error.add_context(fmt::format("converting {} (node '{}')", node.op, node.name));
    throw;
  }
}

}  // namespace

namespace {

Model convert_graph(const graph::FrozenGraph& given, bool is_inside) {
  const auto with_conditions = with_first_conditions(given);
  const graph::FrozenGraph& frozen = with_conditions ? *with_conditions : given;
  Conversion to(frozen, is_inside);
  for (const std::size_t index : graph::topological_order(frozen.graph.nodes)) {
    convert_node(frozen.graph.nodes[index], to);
  }
  return to.take();
}

// Operations that give what their input has the rank of.
constexpr std::array<std::string_view, 14> kElementWise{
    "Abs",   "Cast",  "Exp",     "Identity", "Log",    "Neg",          "Relu",
    "Relu6", "Rsqrt", "Sigmoid", "Sqrt",     "Square", "StopGradient", "Tanh"};
constexpr std::array<std::string_view, 4> kOfImages{"AvgPool", "Conv2D", "DepthwiseConv2dNative",
                                                    "MaxPool"};

std::optional<std::size_t> rank_for(const NodeDef& reader) {
  if (reader.op == "MatMul") return 2;
  if (std::ranges::find(kOfImages, reader.op) != kOfImages.end()) return 4;
  return std::nullopt;
}

}  // namespace

std::size_t usual_rank(const graph::GraphDef& graph, const std::string& tensor) {
  std::vector<std::string> values{tensor};
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (const NodeDef& node : graph.nodes) {
      if (node.inputs.empty()) continue;
      const auto from = graph::parse_input(node.inputs[0]);
      if (from.control || from.index != 0 || from.node != values[i]) continue;
      if (const auto rank = rank_for(node)) return *rank;
      const bool passes = std::ranges::find(kElementWise, node.op) != kElementWise.end();
      if (passes && std::ranges::find(values, node.name) == values.end())
        values.push_back(node.name);
    }
  }
  return 1;
}

void add_prefix(Model& model, const std::string& prefix) {
  const auto rename = [&](std::string& name) {
    if (!name.empty()) name.insert(0, prefix);
  };
  for (Node& node : model.nodes) {
    rename(node.name);
    std::ranges::for_each(node.inputs, rename);
    std::ranges::for_each(node.outputs, rename);
    for (auto& [name, value] : node.attributes) {
      auto* inner = std::get_if<std::shared_ptr<const Model>>(&value);
      if (inner == nullptr) continue;
      auto renamed = std::make_shared<Model>(**inner);
      add_prefix(*renamed, prefix);
      value = std::move(renamed);
    }
  }
  for (Initializer& each : model.initializers) rename(each.name);
  for (ValueInfo& each : model.inputs) rename(each.name);
  for (ValueInfo& each : model.outputs) rename(each.name);
}

Model convert_part(const graph::FrozenGraph& frozen) {
  return convert_graph(frozen, /*is_inside=*/true);
}

Model convert(const graph::FrozenGraph& frozen) {
  return convert_graph(frozen, /*is_inside=*/false);
}

std::vector<std::pair<std::string, std::string>> converted_operations() {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& [op, entry] : table()) list.emplace_back(op, entry.onnx);
  return list;
}

}  // namespace muster::onnx
