#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "muster/nn/model/dropout.h"

namespace muster::zoo::internal {

/// Throws InvalidArgument, naming the option, unless the value is positive.
void check_positive(std::string_view option, std::int64_t value);

struct ConvolutionShape {
  std::int64_t inputs{};
  std::int64_t outputs{};
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
};

/// A convolution without bias that pads by half its kernel, with He's initial weights.
torch::nn::Conv2d convolution(const ConvolutionShape& shape);

/// A convolution "0" and its batch norm "1", and after them a ReLU6 if asked for.
class ConvolutionNorm : public torch::nn::Module {
 public:
  ConvolutionNorm(const ConvolutionShape& shape, bool relu6);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Conv2d convolution_;
  torch::nn::BatchNorm2d norm_;
  bool relu6_;
};

/// A container whose children are registered from outside: "layer.0" or "mlp.c_fc".
std::shared_ptr<torch::nn::Module> register_container(torch::nn::Module& parent,
                                                      const std::string& name);

/// Dropout that is a child of `parent`, or null for a rate of 0. Throws as Dropout does.
std::shared_ptr<Dropout> register_dropout(torch::nn::Module& parent, const std::string& name,
                                          double rate);
torch::Tensor dropped(const std::shared_ptr<Dropout>& dropout, const torch::Tensor& x);

/// Scaled dot-product attention of heads that lie side by side: query, key and value are
/// [batch, length, heads * depth], and so is the result. `mask` is added to the scores
/// [batch, heads, length, length]; undefined adds nothing.
torch::Tensor attention(const torch::Tensor& query, const torch::Tensor& key,
                        const torch::Tensor& value, std::int64_t heads, const torch::Tensor& mask,
                        const std::shared_ptr<Dropout>& dropout);

/// Throws InvalidArgument unless ids are integers [batch, length] of at most `longest`.
void check_ids(std::string_view network, const torch::Tensor& ids, std::int64_t longest);

/// Draws matrices from a normal distribution with a deviation of 0.02, as BERT and GPT-2 begin.
/// Other parameters keep their values.
void fill_matrices(torch::nn::Module& module);

/// Throws InvalidArgument unless the heads divide the hidden size.
void check_heads(std::int64_t hidden, std::int64_t heads);

}  // namespace muster::zoo::internal
