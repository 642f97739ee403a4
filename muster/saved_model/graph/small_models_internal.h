#pragma once

// Models of a few nodes, for tests and benchmarks of servers.

#include <fmt/core.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/saved_model/graph/saved_model.h"

namespace muster::internal {

/// A model of these nodes, which make the numbers `y` of the numbers `x`.
inline void write_model(const Path& dir, std::vector<graph::NodeDef> nodes,
                        const graph::Shape& result = {-1}) {
  using graph::DataType;
  const graph::TensorInfo x{.name = "x:0", .dtype = DataType::kFloat, .shape = {-1}};
  const graph::TensorInfo y{.name = "y:0", .dtype = DataType::kFloat, .shape = result};
  graph::MetaGraph meta{.tags = {"serve"}};
  meta.graph.nodes = std::move(nodes);
  meta.signatures["serving_default"] = {.inputs = {{"x", x}},
                                        .outputs = {{"y", y}},
                                        .method_name = std::string(graph::kPredictMethod)};
  graph::write_saved_model(dir, {.meta_graphs = {meta}});
}

/// y = x + added.
inline void write_adder(const Path& dir, float added) {
  using graph::DataType;
  write_model(
      dir,
      {graph::placeholder_node("x", DataType::kFloat, {-1}),
       graph::constant_node("added", graph::TensorValue::scalar<float>(added)),
       {.name = "y", .op = "AddV2", .inputs = {"x", "added"}, .attrs = {{"T", DataType::kFloat}}}});
}

/// y = x, after as much work for each request as a product of two square matrices.
inline void write_busy_model(const Path& dir, std::int64_t size) {
  using graph::DataType;
  using graph::TensorValue;
  const auto node = [](std::string name, std::string op, std::vector<std::string> inputs) {
    return graph::NodeDef{.name = std::move(name),
                          .op = std::move(op),
                          .inputs = std::move(inputs),
                          .attrs = {{"T", DataType::kFloat}}};
  };
  const std::vector<float> values(static_cast<std::size_t>(size * size), 0.001F);
  std::vector<graph::NodeDef> nodes{
      graph::placeholder_node("x", DataType::kFloat, {-1}),
      graph::constant_node("axis", TensorValue::scalar<std::int32_t>(0)),
      graph::constant_node("zero", TensorValue::scalar<float>(0)),
      graph::constant_node("matrix",
                           TensorValue::of<float>({size, size}, std::span<const float>(values))),
      node("sum", "Sum", {"x", "axis"}),
      node("scaled", "Mul", {"matrix", "sum"}),
      node("product", "MatMul", {"scaled", "matrix"}),
      node("columns", "Sum", {"product", "axis"}),
      node("all", "Sum", {"columns", "axis"}),
      node("nothing", "Mul", {"all", "zero"}),
      node("y", "AddV2", {"x", "nothing"})};
  for (auto& one : nodes) {
    if (one.op == "Sum") one.attrs.emplace("Tidx", DataType::kInt32);
  }
  write_model(dir, std::move(nodes));
}

/// One number, after this many running sums of four million numbers each: long work, of which no
/// part is shared between threads. Requests are not joined, so that each is a batch.
inline void write_slow_model(const Path& dir, int sums) {
  using graph::DataType;
  using graph::TensorValue;
  constexpr std::int32_t kNumbers = 4 << 20;
  const auto node = [](std::string name, std::string op, std::vector<std::string> inputs) {
    return graph::NodeDef{.name = std::move(name),
                          .op = std::move(op),
                          .inputs = std::move(inputs),
                          .attrs = {{"T", DataType::kFloat}}};
  };
  std::vector<graph::NodeDef> nodes{
      graph::placeholder_node("x", DataType::kFloat, {-1}),
      graph::constant_node("axis", TensorValue::scalar<std::int32_t>(0)),
      graph::constant_node("size", TensorValue::vector<std::int32_t>({kNumbers})),
      node("number", "Sum", {"x", "axis"}), node("sum0", "Fill", {"size", "number"})};
  nodes.back().attrs.emplace("index_type", DataType::kInt32);
  for (int i = 0; i < sums; ++i) {
    nodes.push_back(node(fmt::format("sum{}", i + 1), "Cumsum", {fmt::format("sum{}", i), "axis"}));
  }
  nodes.push_back(node("y", "Max", {fmt::format("sum{}", sums), "axis"}));
  for (auto& one : nodes) {
    if (one.op == "Sum" || one.op == "Max" || one.op == "Cumsum") {
      one.attrs.emplace("Tidx", DataType::kInt32);
    }
  }
  write_model(dir, std::move(nodes), /*result=*/{});
}

}  // namespace muster::internal
