#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/graph_def.h"

namespace muster::executor {

/// For tests: whether two values have the same type, shape and bits.
inline bool same_bits(const Value& left, const Value& right) {
  if (data_type_of(left) != data_type_of(right) || shape_of(left) != shape_of(right)) return false;
  return to_tensor_value(left) == to_tensor_value(right);
}

/// For tests: what a model gives without an arena. Throws Internal where one with an arena gives
/// other bits or another error.
inline Values run_both_ways(const graph::MetaGraph& meta, const Path& dir, const Values& inputs,
                            const RunLimits& limits = {}) {
  const auto run = [&](bool arena) -> std::pair<Values, std::string> {
    const auto model = ExecutableModel::from(meta, dir, {.arena = arena, .limits = limits});
    try {
      return {model.run("f", inputs), ""};
    } catch (const Error& error) {
      return {{}, error.what()};
    }
  };
  const auto [wanted, error] = run(false);
  const auto [given, other_error] = run(true);
  if (error != other_error) throw Internal("in an arena: {}, else: {}", other_error, error);
  for (const auto& [name, value] : wanted) {
    if (same_bits(value, given.at(name))) continue;
    throw Internal("{} is {} in an arena, else {}", name, describe(given.at(name)),
                   describe(value));
  }
  return wanted;
}

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
  if (ExecutableModel::from(meta, {}).has_arena("f")) run_both_ways(meta, {}, values, limits);
  const auto model = ExecutableModel::from(meta, {}, {.arena = false, .limits = limits});
  for (auto& [name, value] : model.run("f", values)) out.push_back(value);
  return out;
}

}  // namespace muster::executor
