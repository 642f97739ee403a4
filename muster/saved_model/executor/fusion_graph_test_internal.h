#pragma once

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/executor/value.h"

namespace muster::executor {

/// A graph with the signature "f" from "x" and "z" (floats) to "y" and what else is fetched, as it
/// is and rewritten.
class FusionGraph {
 public:
  using Names = std::vector<std::string>;

  FusionGraph() {
    for (const char* name : {"x", "z"}) {
      meta_.graph.nodes.push_back(
          graph::placeholder_node(name, graph::DataType::kFloat, graph::Shape::any()));
      signature_.inputs[name] = {.name = std::string(name) + ":0",
                                 .dtype = graph::DataType::kFloat,
                                 .shape = graph::Shape::any()};
    }
    fetch("y");
  }

  FusionGraph& constant(const std::string& name, const at::Tensor& value) {
    return node(name, "Const", {}, {{"value", to_tensor_value(value)}});
  }
  FusionGraph& node(const std::string& name, const std::string& op, const Names& inputs,
                    graph::Attrs attrs = {}) {
    meta_.graph.nodes.push_back({.name = name, .op = op, .inputs = inputs, .attrs = attrs});
    return *this;
  }
  FusionGraph& elementwise(const std::string& name, const std::string& op, const Names& inputs) {
    return node(name, op, inputs, {{"T", graph::DataType::kFloat}});
  }
  FusionGraph& convolution(const std::string& name, const Names& inputs, std::int64_t stride,
                           const char* padding) {
    return node(
        name, "Conv2D", inputs,
        {{"T", graph::DataType::kFloat},
         {"data_format", "NHWC"},
         {"padding", padding},
         {"strides", graph::AttrValue::list(std::vector<std::int64_t>{1, stride, stride, 1})}});
  }
  FusionGraph& batch_norm(const std::string& name, const std::string& input, std::int64_t size) {
    constant("gamma", at::randn({size})).constant("beta", at::randn({size}));
    constant("mean", at::randn({size})).constant("variance", at::rand({size}));
    return node(name, "FusedBatchNormV3", {input, "gamma", "beta", "mean", "variance"},
                {{"T", graph::DataType::kFloat}, {"epsilon", 0.001F}, {"is_training", false}});
  }
  FusionGraph& fetch(const std::string& name) {
    signature_.outputs[name] = {
        .name = name + ":0", .dtype = graph::DataType::kFloat, .shape = graph::Shape::any()};
    return *this;
  }

  ExecutableModel load(bool fused, const RunLimits& limits = {}) const {
    graph::MetaGraph meta = meta_;
    meta.signatures["f"] = signature_;
    return ExecutableModel::from(meta, {}, {.fuse_layers = fused, .limits = limits});
  }
  Names planned() const { return load(true).planned_operations("f"); }
  Values run(bool fused, const at::Tensor& x, const at::Tensor& z) const {
    return load(fused).run("f", {{"x", x}, {"z", z}});
  }

  /// The largest difference between the outputs of the graph as it is and rewritten, over the
  /// largest output.
  double difference(const at::Tensor& x, const at::Tensor& z = at::zeros({1})) const {
    const Values plain = run(false, x, z);
    const Values fused = run(true, x, z);
    double most = 0;
    for (const auto& [name, value] : plain) {
      const auto& wanted = std::get<at::Tensor>(value);
      const auto& found = std::get<at::Tensor>(fused.at(name));
      if (wanted.sizes() != found.sizes()) return INFINITY;
      const double scale = std::max(wanted.abs().max().item<double>(), 1.0);
      most = std::max(most, (wanted - found).abs().max().item<double>() / scale);
    }
    return most;
  }
  /// Whether all outputs have the same bits, rewritten or not.
  bool is_same(const at::Tensor& x, const at::Tensor& z) const {
    const Values plain = run(false, x, z);
    const Values fused = run(true, x, z);
    for (const auto& [name, value] : plain) {
      if (!at::equal(std::get<at::Tensor>(value), std::get<at::Tensor>(fused.at(name)))) {
        return false;
      }
    }
    return plain.size() == fused.size();
  }

 private:
  graph::MetaGraph meta_;
  graph::SignatureDef signature_;
};

}  // namespace muster::executor
