// Loops: ONNX's Loop, whose body computes the next values and whether there is another round.
#include <algorithm>
#include <array>
#include <memory>

#include "muster/base/error.h"
#include "muster/saved_model/graph/default_attrs.h"
#include "muster/saved_model/onnx/conversion_internal.h"

namespace muster::onnx {
namespace {

using graph::DataType;
using graph::FrozenGraph;
using graph::FunctionRef;
using graph::NodeDef;
using graph::TensorInfo;

constexpr const char* kFirstCondition = "first_condition";

bool is_loop(const NodeDef& node) { return node.op == "StatelessWhile" || node.op == "While"; }

std::vector<DataType> types_of(const NodeDef& loop) {
  return graph::attr<graph::AttrList>(loop, "T").types;
}

NodeDef call_of(const std::string& name, const NodeDef& loop, const char* function,
                std::vector<std::string> inputs) {
  return {.name = name,
          .op = "PartitionedCall",
          .inputs = std::move(inputs),
          .attrs = {{"f", graph::attr<FunctionRef>(loop, function)}}};
}

// Shape of a value that the loop carries into a round: the one that it declares, or any of the rank
// that its first value has.
graph::Shape shape_of(const Call& call, std::size_t index) {
  const auto shapes = call.attr_or("output_shapes", graph::AttrList{}).shapes;
  if (index < shapes.size() && !shapes[index].unknown_rank) return shapes[index];
  const auto rank = call.held(index).rank;
  return rank ? graph::Shape(std::vector<std::int64_t>(*rank, -1)) : graph::Shape::any();
}

// One round: the body, and the condition on what it gives.
FrozenGraph round_of(Call& call, std::size_t count, const std::vector<DataType>& types) {
  graph::MetaGraph meta;
  meta.graph.functions = call.to.functions();
  graph::SignatureDef signature;
  std::vector<std::string> values;
  std::vector<std::string> next;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(fmt::format("value_{}", i));
    next.push_back(fmt::format("body:{}", i));
    const graph::Shape shape = shape_of(call, i);
    meta.graph.nodes.push_back(graph::placeholder_node(values[i], types[i], shape));
    signature.inputs[values[i]] = {.name = values[i] + ":0", .dtype = types[i], .shape = shape};
    signature.outputs[fmt::format("next_{}", i)] = {
        .name = next[i], .dtype = types[i], .shape = graph::Shape::any()};
  }
  meta.graph.nodes.push_back(call_of("body", call.node, "body", values));
  meta.graph.nodes.push_back(call_of("condition", call.node, "cond", next));
  signature.outputs["goes_on"] = {
      .name = "condition:0", .dtype = DataType::kBool, .shape = graph::Shape{}};
  return graph::freeze(meta, signature, nullptr);
}

// In the order in which a Loop gives them to its body and takes them from it.
void arrange(Model& body, std::size_t count) {
  const auto take = [](std::vector<ValueInfo>& from, const std::string& name) {
    const auto found = std::ranges::find(from, name, &ValueInfo::name);
    if (found == from.end()) throw Internal("the body of a loop lacks '{}'", name);
    return *found;
  };
  std::vector<ValueInfo> inputs{{.name = "round", .type = DataType::kInt64},
                                {.name = "goes_on_before", .type = DataType::kBool}};
  std::vector<ValueInfo> outputs{take(body.outputs, "goes_on")};
  for (std::size_t i = 0; i < count; ++i) {
    inputs.push_back(take(body.inputs, fmt::format("value_{}", i)));
    outputs.push_back(take(body.outputs, fmt::format("next_{}", i)));
  }
  body.inputs = std::move(inputs);
  body.outputs = std::move(outputs);
  // A round may give other sizes than the one before.
  for (std::size_t i = 1; i < body.outputs.size(); ++i) {
    body.outputs[i].shape.reset();
    body.inputs[i + 1].shape.reset();
  }
}

void convert_loop(Call& call) {
  const std::vector<DataType> types = types_of(call.node);
  call.require(call.count() == types.size() + 1, "it does not have an input for each of its types");
  Model body = convert_part(round_of(call, types.size(), types));
  arrange(body, types.size());
  body.graph_name = call.node.name + "/round";
  // No value of a graph inside another may have the name of one outside of it.
  add_prefix(body, call.node.name + "/");
  std::vector<std::string> inputs{"", call.input(types.size())};
  std::vector<std::optional<std::size_t>> ranks;
  for (std::size_t i = 0; i < types.size(); ++i) {
    inputs.push_back(call.input(i));
    const graph::Shape shape = shape_of(call, i);
    ranks.push_back(shape.unknown_rank ? std::nullopt : std::optional(shape.dims.size()));
  }
  const auto outputs =
      call.to.add_several(call.node.name, "Loop", std::move(inputs), types.size(),
                          {{"body", std::make_shared<const Model>(std::move(body))}});
  for (std::size_t i = 0; i < types.size(); ++i) {
    call.give(outputs[i], types[i], ranks[i], {}, static_cast<int>(i));
  }
}

constexpr std::array kLoopConversions{OpConversion{"StatelessWhile", "Loop", convert_loop},
                                      OpConversion{"While", "Loop", convert_loop}};

}  // namespace

std::optional<FrozenGraph> with_first_conditions(const FrozenGraph& frozen) {
  if (std::ranges::none_of(frozen.graph.nodes, is_loop)) return std::nullopt;
  graph::MetaGraph meta;
  meta.graph = frozen.graph;
  meta.graph.nodes.clear();
  for (NodeDef node : frozen.graph.nodes) {
    if (is_loop(node)) {
      const std::string name = fmt::format("{}/{}", node.name, kFirstCondition);
      meta.graph.nodes.push_back(call_of(name, node, "cond", node.inputs));
      node.inputs.push_back(name);
    }
    meta.graph.nodes.push_back(std::move(node));
  }
  FrozenGraph made = graph::freeze(meta, frozen.signature, nullptr);
  made.columns = frozen.columns;
  made.features = frozen.features;
  made.tables = frozen.tables;
  return made;
}

std::span<const OpConversion> loop_conversions() { return kLoopConversions; }

}  // namespace muster::onnx
