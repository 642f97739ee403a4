#include "model.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include "data.h"
#include "muster/nn/api.h"

namespace {

/// Two blocks of convolution, batch norm, ReLU and pooling, then two dense layers.
class Net : public muster::Model {
 public:
  explicit Net(double keep_prob) {
    conv1_ = register_module("conv1", convolution(1, 32));
    norm1_ = register_module("norm1", torch::nn::BatchNorm2d(32));
    conv2_ = register_module("conv2", convolution(32, 64));
    norm2_ = register_module("norm2", torch::nn::BatchNorm2d(64));
    dense_ = register_module("dense",
                             std::make_shared<muster::Dense>(kSide / 4 * (kSide / 4) * 64, 1024));
    norm3_ = register_module("norm3", torch::nn::BatchNorm1d(1024));
    dropout_ = register_module("dropout", std::make_shared<muster::Dropout>(1 - keep_prob));
    logits_ = register_module("logits", std::make_shared<muster::Dense>(1024, kClasses));
  }

  torch::Tensor forward(const muster::Features& features) override {
    auto y = features.tensor("image").view({-1, 1, kSide, kSide});
    y = torch::max_pool2d(torch::relu(norm1_->forward(conv1_->forward(y))), 2);
    y = torch::max_pool2d(torch::relu(norm2_->forward(conv2_->forward(y))), 2);
    y = torch::relu(norm3_->forward(dense_->forward(y.flatten(1))));
    return logits_->forward(dropout_->forward(y));
  }

 private:
  static torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
  }

  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::BatchNorm2d norm1_{nullptr}, norm2_{nullptr};
  torch::nn::BatchNorm1d norm3_{nullptr};
  std::shared_ptr<muster::Dense> dense_, logits_;
  std::shared_ptr<muster::Dropout> dropout_;
};

}  // namespace

void add_model_flags(muster::FlagSet& set, ModelOptions& options) {
  set.add("--learning-rate", &options.learning_rate, "Of Adam").positive();
  set.add("--keep-prob", &options.keep_prob, "The part of values that dropout keeps")
      .between(0.01, 1.0);
}

muster::Estimator make_estimator(const ModelOptions& options, std::int64_t /*max_steps*/,
                                 const muster::RunConfig& config) {
  return muster::Estimator(
      {.model = [keep = options.keep_prob] { return std::make_shared<Net>(keep); },
       .head = muster::multi_class_head(kClasses),
       .optimizer = muster::adam({.learning_rate = options.learning_rate})},
      config);
}
