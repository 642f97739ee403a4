#include "muster/onnx/convert.h"

#include <map>

#include "muster/base/error.h"
#include "muster/graph/check.h"
#include "muster/onnx/conversion_internal.h"

namespace muster::onnx {
namespace {

using graph::NodeDef;
using graph::TensorValue;

const std::map<std::string_view, OpConversion>& table() {
  static const auto made = [] {
    std::map<std::string_view, OpConversion> all;
    for (const auto part : {pointwise_conversions(), linear_conversions(), image_conversions(),
                            reduction_conversions(), shape_conversions(), lookup_conversions(),
                            column_conversions()}) {
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

Model convert(const graph::FrozenGraph& frozen) {
  Conversion to(frozen);
  for (const std::size_t index : graph::topological_order(frozen.graph.nodes)) {
    convert_node(frozen.graph.nodes[index], to);
  }
  return to.take();
}

std::vector<std::pair<std::string, std::string>> converted_operations() {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& [op, entry] : table()) list.emplace_back(op, entry.onnx);
  return list;
}

}  // namespace muster::onnx
