#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>

#include "muster/nn/model/initializer.h"
#include "muster/nn/model/seeded_module.h"

namespace muster {

struct DenseOptions {
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform();
  Initializer bias_initializer = zeros();
};

/// y = x * kernel + bias, with the variables `kernel` [inputs, units] and `bias` [units] as in
/// TensorFlow's checkpoints.
class Dense : public torch::nn::Module, public SeededModule {
 public:
  /// Throws InvalidArgument unless both are positive.
  Dense(std::int64_t inputs, std::int64_t units, DenseOptions options = {});

  /// [batch, inputs] to [batch, units].
  torch::Tensor forward(const torch::Tensor& input);
  void seed_from(std::uint64_t seed, const std::string& name) override;

  torch::Tensor kernel{};
  /// Undefined without use_bias.
  torch::Tensor bias{};

 private:
  DenseOptions options_;
};

}  // namespace muster
