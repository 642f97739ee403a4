#include <string>
#include <utility>
#include <vector>

#include "muster/data/records/wire.h"
#include "muster/export/saver_internal.h"
#include "muster/export/translation_internal.h"
#include "muster/train/estimator/evaluation_model.h"

namespace muster::exporting {
namespace {

using graph::AttrValue;
using graph::DataType;
using graph::NodeDef;
using graph::TensorValue;

constexpr const char* kTensorNames = "save/tensor_names";

NodeDef strings(const std::string& name, const std::vector<std::string>& values) {
  return graph::constant_node(
      name, TensorValue::of_strings({static_cast<std::int64_t>(values.size())}, values));
}

void put_text(std::uint32_t field, const std::string& text, std::string& out) {
  wire::append_header(field, text.size(), out);
  out += text;
}

void put_true(std::uint32_t field, std::string& out) {
  wire::append_varint(wire::tag(field, wire::kVarint), out);
  wire::append_varint(1, out);
}

// TensorFlow's VariableDef. What a program would run to start over is what restoring runs: an
// export has no other first values.
std::string variable_def(const GraphVariable& variable, const std::string& assign,
                         const std::string& value) {
  std::string out;
  put_text(1, variable.node + ":0", out);
  put_text(2, assign, out);
  put_text(3, variable.read + ":0", out);
  put_true(5, out);
  put_text(6, value + ":0", out);
  if (variable.variable.trainable) put_true(7, out);
  return out;
}

void add_filename(std::vector<NodeDef>& nodes) {
  nodes.push_back(graph::constant_node("save/filename/input", TensorValue::string_scalar("model")));
  for (const auto& [name, input] : {std::pair{"save/filename", "save/filename/input"},
                                    std::pair{"save/Const", "save/filename"}}) {
    nodes.push_back({.name = name,
                     .op = "PlaceholderWithDefault",
                     .inputs = {input},
                     .attrs = {{"dtype", DataType::kString}, {"shape", graph::Shape{}}}});
  }
}

}  // namespace

void add_saver(const std::vector<GraphVariable>& variables, graph::MetaGraph& meta) {
  if (variables.empty()) return;
  auto& nodes = meta.graph.nodes;
  std::vector<std::string> names;
  std::vector<DataType> types;
  for (const auto& variable : variables) {
    names.push_back(variable.variable.name);
    types.push_back(graph_type(variable.variable.tensor.scalar_type()));
  }
  add_filename(nodes);
  nodes.push_back(strings(kTensorNames, names));
  nodes.push_back(strings("save/shape_and_slices", std::vector<std::string>(names.size())));
  NodeDef save{.name = "save/SaveV2",
               .op = "SaveV2",
               .inputs = {"save/Const", kTensorNames, "save/shape_and_slices"},
               .attrs = {{"dtypes", AttrValue::list(types)}}};
  for (const auto& variable : variables) save.inputs.push_back(variable.read);
  nodes.push_back(std::move(save));
  nodes.push_back({.name = "save/control_dependency",
                   .op = "Identity",
                   .inputs = {"save/Const", "^save/SaveV2"},
                   .attrs = {{"T", DataType::kString}}});
  nodes.push_back({.name = "save/RestoreV2",
                   .op = "RestoreV2",
                   .inputs = {"save/Const", kTensorNames, "save/shape_and_slices"},
                   .attrs = {{"dtypes", AttrValue::list(types)}}});
  NodeDef all{.name = "save/restore_all", .op = "NoOp"};
  graph::Collection::Bytes every;
  graph::Collection::Bytes trainable;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const std::string number = i == 0 ? "" : "_" + std::to_string(i);
    const std::string value = "save/Identity" + number;
    const std::string assign = "save/AssignVariableOp" + number;
    const std::string output = i == 0 ? "save/RestoreV2" : "save/RestoreV2:" + std::to_string(i);
    nodes.push_back(
        {.name = value, .op = "Identity", .inputs = {output}, .attrs = {{"T", types[i]}}});
    nodes.push_back({.name = assign,
                     .op = "AssignVariableOp",
                     .inputs = {variables[i].node, value},
                     .attrs = {{"dtype", types[i]}}});
    all.inputs.push_back("^" + assign);
    every.values.push_back(variable_def(variables[i], assign, value));
    if (variables[i].variable.trainable) trainable.values.push_back(every.values.back());
  }
  nodes.push_back(std::move(all));
  meta.saver = graph::Saver{.filename_tensor = "save/Const:0",
                            .save_tensor = "save/control_dependency:0",
                            .restore_op = "save/restore_all"};
  meta.collections["variables"].value = std::move(every);
  if (!trainable.values.empty()) {
    meta.collections["trainable_variables"].value = std::move(trainable);
  }
}

void restore_averages(const std::vector<GraphVariable>& variables, graph::MetaGraph& meta) {
  std::vector<std::string> names;
  for (const auto& [node, read, variable] : variables) {
    names.push_back(variable.trainable ? variable.name + kAverageSuffix : variable.name);
  }
  for (NodeDef& node : meta.graph.nodes) {
    if (node.name == kTensorNames) node = strings(kTensorNames, names);
  }
}

}  // namespace muster::exporting
