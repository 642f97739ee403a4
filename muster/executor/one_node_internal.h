#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "muster/executor/executable_model.h"
#include "muster/graph/graph_def.h"

namespace muster::executor {

/// For tests: runs a graph of one node, "y", with these inputs, and gives its first outputs.
inline std::vector<Value> run_one_node(const std::string& op, const std::vector<Value>& inputs,
                                       graph::Attrs attrs, int outputs,
                                       const RunLimits& limits = {}) {
  graph::MetaGraph meta;
  graph::SignatureDef signature;
  graph::NodeDef node{.name = "y", .op = op, .inputs = {}, .attrs = std::move(attrs)};
  Values values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto name = fmt::format("in{}", i);
    const auto type = data_type_of(inputs[i]);
    meta.graph.nodes.push_back(graph::placeholder_node(name, type, graph::Shape::any()));
    signature.inputs[name] = {.name = name + ":0", .dtype = type, .shape = graph::Shape::any()};
    node.inputs.push_back(name);
    values.emplace(name, inputs[i]);
  }
  meta.graph.nodes.push_back(node);
  for (int i = 0; i < outputs; ++i) {
    signature.outputs[fmt::format("out{:02}", i)] = {
        .name = fmt::format("y:{}", i), .dtype = {}, .shape = graph::Shape::any()};
  }
  meta.signatures["f"] = signature;
  std::vector<Value> out;
  const auto model = ExecutableModel::from(meta, {}, {.limits = limits});
  for (auto& [name, value] : model.run("f", values)) out.push_back(value);
  return out;
}

}  // namespace muster::executor
