#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace muster {

class Dense;

struct MlpOptions {
  std::int64_t inputs = 0;
  std::vector<std::int64_t> hidden_units{};
  /// Units of the last layer, `logits`, which has no activation.
  std::int64_t outputs = 1;
  /// relu when empty.
  std::function<torch::Tensor(const torch::Tensor&)> activation{};
  /// The fraction dropped after each hidden layer in training.
  double dropout = 0.0;
  /// Batch normalisation (momentum 0.999, epsilon 0.001) after activation and dropout.
  bool batch_norm = false;
};

/// Hidden layers and logits as in dnn_classifier, with its variable names: hiddenlayer_0/kernel,
/// hiddenlayer_0/bias, ..., logits/kernel, logits/bias.
class Mlp : public torch::nn::Module {
 public:
  /// Throws InvalidArgument for units that are not positive or a rate outside [0, 1).
  explicit Mlp(MlpOptions options);
  ~Mlp() override;

  /// [batch, inputs] to [batch, outputs].
  torch::Tensor forward(const torch::Tensor& input);

 private:
  struct Layer;
  std::vector<Layer> layers_;
  std::function<torch::Tensor(const torch::Tensor&)> activation_;
  /// Nothing but dense layers and relu, which can be one step.
  bool is_stack_ = false;
  std::shared_ptr<Dense> logits_;
};

}  // namespace muster
