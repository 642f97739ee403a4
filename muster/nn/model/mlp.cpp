#include "muster/nn/model/mlp.h"

#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <torch/nn/modules/batchnorm.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/nn/model/dense.h"
#include "muster/nn/model/dense_stack_internal.h"
#include "muster/nn/model/dropout.h"

namespace muster {

struct Mlp::Layer {
  std::shared_ptr<Dense> dense;
  std::shared_ptr<Dropout> dropout;
  std::shared_ptr<torch::nn::BatchNorm1dImpl> batch_norm;
};

namespace {

void add(const Dense& dense, internal::DenseStack& stack) {
  stack.kernels.push_back(dense.kernel);
  stack.biases.push_back(dense.bias);
}

}  // namespace

Mlp::Mlp(MlpOptions options)
    : activation_(std::move(options.activation)),
      is_stack_(!activation_ && options.dropout == 0.0 && !options.batch_norm) {
  std::int64_t width = options.inputs;
  for (std::size_t i = 0; i < options.hidden_units.size(); ++i) {
    const auto name = fmt::format("hiddenlayer_{}", i);
    const auto units = options.hidden_units[i];
    Layer layer;
    layer.dense = register_module(name, std::make_shared<Dense>(width, units));
    if (options.dropout != 0.0) {
      layer.dropout =
          register_module(name + "_dropout", std::make_shared<Dropout>(options.dropout));
    }
    if (options.batch_norm) {
      // TensorFlow's momentum is the share that stays, libtorch's the share that is new.
      const auto norm = torch::nn::BatchNormOptions(units).eps(1e-3).momentum(1.0 - 0.999);
      layer.batch_norm = register_module(fmt::format("batchnorm_{}", i),
                                         std::make_shared<torch::nn::BatchNorm1dImpl>(norm));
    }
    layers_.push_back(std::move(layer));
    width = units;
  }
  logits_ = register_module("logits", std::make_shared<Dense>(width, options.outputs));
}

Mlp::~Mlp() = default;

torch::Tensor Mlp::forward(const torch::Tensor& input) {
  if (is_stack_) {
    internal::DenseStack stack;
    for (const auto& layer : layers_) add(*layer.dense, stack);
    add(*logits_, stack);
    if (internal::dense_stack_takes(input, stack)) return internal::dense_stack(input, stack);
  }
  auto x = input;
  for (const auto& layer : layers_) {
    x = layer.dense->forward(x);
    x = activation_ ? activation_(x) : at::relu(x);
    if (layer.dropout) x = layer.dropout->forward(x);
    if (layer.batch_norm) x = layer.batch_norm->forward(x);
  }
  return logits_->forward(x);
}

}  // namespace muster
