#pragma once

#include <torch/nn/module.h>

#include <cstdint>

namespace muster {

struct ProjectionOptions {
  /// Standard deviation of the initial weights.
  double deviation = 0.02;
  /// The meta device gives a projection that has shapes and no memory.
  at::Device device = at::kCPU;
};

/// y = x * weight^T: a linear layer without bias whose `weight` is [outputs, inputs], in
/// checkpoints too. Initial weights are normal, from libtorch's generator.
class Projection : public torch::nn::Module {
 public:
  /// Throws InvalidArgument unless both are positive.
  Projection(std::int64_t inputs, std::int64_t outputs, const ProjectionOptions& options = {});

  /// [..., inputs] to [..., outputs].
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight{};
};

}  // namespace muster
