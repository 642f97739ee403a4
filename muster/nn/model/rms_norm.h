#pragma once

#include <torch/nn/module.h>

#include <cstdint>

namespace muster {

/// y = x / sqrt(mean(x^2) + epsilon) * weight over the last dimension: a normalisation without
/// mean and bias. `weight` [size] begins with ones.
class RmsNorm : public torch::nn::Module {
 public:
  /// Throws InvalidArgument unless size and epsilon are positive.
  explicit RmsNorm(std::int64_t size, double epsilon = 1e-5, at::Device device = at::kCPU);

  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight{};

 private:
  double epsilon_;
};

}  // namespace muster
