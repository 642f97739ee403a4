#include "muster/nn/zoo/resnet.h"

#include <fmt/core.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/nn/zoo/image_network_internal.h"
#include "muster/nn/zoo/layers_internal.h"

namespace muster::zoo {
namespace {

using internal::ConvolutionNorm;
using internal::ConvolutionShape;

constexpr std::int64_t kBottleneckExpansion = 4;

/// Convolutions with batch norm whose result is added to the input.
class ResidualUnit : public torch::nn::Module {
 public:
  ResidualUnit(const ResNetOptions& options, std::int64_t inputs, std::int64_t planes,
               std::int64_t stride) {
    std::int64_t outputs = planes;
    if (options.bottleneck) {
      outputs = planes * kBottleneckExpansion;
      const std::int64_t width = planes * options.width_per_group / 64 * options.groups;
      internal::check_positive("width_per_group of a stage", width);
      add({.inputs = inputs, .outputs = width});
      add({width, width, 3, stride, options.groups});
      add({.inputs = width, .outputs = outputs});
    } else {
      add({inputs, planes, 3, stride});
      add({planes, planes, 3});
    }
    if (stride != 1 || inputs != outputs) {
      shortcut_ = register_module(
          "downsample",
          std::make_shared<ConvolutionNorm>(ConvolutionShape{inputs, outputs, 1, stride}, false));
    }
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = x;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      if (i > 0) y = at::relu(y);
      y = norms_[i]->forward(convolutions_[i]->forward(y));
    }
    return at::relu(y + (shortcut_ ? shortcut_->forward(x) : x));
  }

 private:
  void add(const ConvolutionShape& shape) {
    const std::size_t number = convolutions_.size() + 1;
    convolutions_.push_back(
        register_module(fmt::format("conv{}", number), internal::convolution(shape)));
    norms_.push_back(
        register_module(fmt::format("bn{}", number), torch::nn::BatchNorm2d(shape.outputs)));
  }

  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  std::shared_ptr<ConvolutionNorm> shortcut_;
};

void check(const ResNetOptions& options) {
  internal::check_positive("ResNetOptions::base_channels", options.base_channels);
  internal::check_positive("ResNetOptions::groups", options.groups);
  internal::check_positive("ResNetOptions::width_per_group", options.width_per_group);
  internal::check_positive("ResNetOptions::num_classes", options.num_classes);
  if (options.units.empty()) throw InvalidArgument("ResNetOptions::units is empty");
  for (const auto units : options.units) internal::check_positive("ResNetOptions::units", units);
  if (!options.bottleneck && (options.groups != 1 || options.width_per_group != 64)) {
    throw InvalidArgument(
        "ResNetOptions::groups and width_per_group are for units with bottleneck = true");
  }
}

class ResNet : public internal::ImageNetwork {
 public:
  explicit ResNet(const ResNetOptions& options)
      : ImageNetwork("resnet", options.image, options.channels),
        stem_(register_module(
            "conv1", internal::convolution({options.channels, options.base_channels, 7, 2}))),
        norm_(register_module("bn1", torch::nn::BatchNorm2d(options.base_channels))) {
    std::int64_t inputs = options.base_channels;
    std::int64_t planes = options.base_channels;
    for (std::size_t stage = 0; stage < options.units.size(); ++stage) {
      const auto layer = internal::register_container(*this, fmt::format("layer{}", stage + 1));
      for (std::int64_t unit = 0; unit < options.units[stage]; ++unit) {
        const std::int64_t stride = stage > 0 && unit == 0 ? 2 : 1;
        units_.push_back(layer->register_module(
            std::to_string(unit), std::make_shared<ResidualUnit>(options, inputs, planes, stride)));
        inputs = options.bottleneck ? planes * kBottleneckExpansion : planes;
      }
      planes *= 2;
    }
    logits_ = register_module("fc", torch::nn::Linear(inputs, options.num_classes));
  }

  torch::Tensor logits(const torch::Tensor& images) override {
    check_images(images);
    auto x = at::relu(norm_->forward(stem_->forward(images)));
    x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
    for (const auto& unit : units_) x = unit->forward(x);
    return logits_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  torch::nn::Conv2d stem_;
  torch::nn::BatchNorm2d norm_;
  std::vector<std::shared_ptr<ResidualUnit>> units_;
  torch::nn::Linear logits_{nullptr};
};

}  // namespace

std::shared_ptr<Network> resnet(const ResNetOptions& options) {
  check(options);
  return std::make_shared<ResNet>(options);
}

}  // namespace muster::zoo
