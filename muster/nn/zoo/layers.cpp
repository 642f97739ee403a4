#include <torch/nn/init.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/data/features/features.h"
#include "muster/nn/model/causal_attention.h"
#include "muster/nn/zoo/layers_internal.h"

namespace muster::zoo::internal {

void check_positive(std::string_view option, std::int64_t value) {
  if (value <= 0) throw InvalidArgument("{} must be positive: {}", option, value);
}

torch::nn::Conv2d convolution(const ConvolutionShape& shape) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(shape.inputs, shape.outputs, shape.kernel)
                              .stride(shape.stride)
                              .padding(shape.kernel / 2)
                              .groups(shape.groups)
                              .bias(false));
  torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
  return layer;
}

ConvolutionNorm::ConvolutionNorm(const ConvolutionShape& shape, bool relu6)
    : convolution_(register_module("0", convolution(shape))),
      norm_(register_module("1", torch::nn::BatchNorm2d(shape.outputs))),
      relu6_(relu6) {}

torch::Tensor ConvolutionNorm::forward(const torch::Tensor& x) {
  const auto y = norm_->forward(convolution_->forward(x));
  return relu6_ ? at::hardtanh(y, 0, 6) : y;
}

std::shared_ptr<torch::nn::Module> register_container(torch::nn::Module& parent,
                                                      const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

std::shared_ptr<Dropout> register_dropout(torch::nn::Module& parent, const std::string& name,
                                          double rate) {
  if (rate == 0) return nullptr;
  return parent.register_module(name, std::make_shared<Dropout>(rate));
}

torch::Tensor dropped(const std::shared_ptr<Dropout>& dropout, const torch::Tensor& x) {
  return dropout ? dropout->forward(x) : x;
}

torch::Tensor attention(const torch::Tensor& query, const torch::Tensor& key,
                        const torch::Tensor& value, std::int64_t heads, const torch::Tensor& mask,
                        const std::shared_ptr<Dropout>& dropout) {
  const std::int64_t depth = query.size(2) / heads;
  const auto split = [&](const torch::Tensor& x) {
    return x.reshape({x.size(0), x.size(1), heads, depth}).transpose(1, 2);
  };
  const auto weights_of = [&](const torch::Tensor& weights) { return dropped(dropout, weights); };
  return dot_product_attention(split(query), split(key), split(value), mask, weights_of)
      .transpose(1, 2)
      .flatten(2);
}

void check_ids(std::string_view network, const torch::Tensor& ids, std::int64_t longest) {
  if (ids.dim() != 2 || !at::isIntegralType(ids.scalar_type(), /*includeBool=*/false)) {
    throw InvalidArgument("{} takes ids, whole numbers [batch, length]: {}", network,
                          describe(FeatureValue(ids)));
  }
  if (ids.size(1) > longest) {
    throw InvalidArgument("{} has {} positions, and the ids are {} long: cut them", network,
                          longest, ids.size(1));
  }
}

void fill_matrices(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : module.parameters()) {
    if (parameter.dim() == 2) parameter.normal_(0, 0.02);
  }
}

void check_heads(std::int64_t hidden, std::int64_t heads) {
  check_positive("heads", heads);
  check_positive("hidden", hidden);
  if (hidden % heads != 0) {
    throw InvalidArgument("hidden, {}, must be a multiple of heads, {}", hidden, heads);
  }
}

}  // namespace muster::zoo::internal
