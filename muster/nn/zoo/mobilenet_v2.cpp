#include "muster/nn/zoo/mobilenet_v2.h"

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <string>

#include "muster/base/error.h"
#include "muster/nn/zoo/image_network_internal.h"
#include "muster/nn/zoo/layers_internal.h"

namespace muster::zoo {
namespace {

using internal::ConvolutionNorm;
using internal::ConvolutionShape;

/// The multiple of 8 that is nearest, and at most a tenth below.
std::int64_t scaled_channels(double channels) {
  const std::int64_t nearest =
      std::max<std::int64_t>(8, static_cast<std::int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * channels ? nearest + 8 : nearest;
}

/// An expansion, a depthwise convolution and a projection, added to the input where shapes allow.
class InvertedResidual : public torch::nn::Module {
 public:
  InvertedResidual(std::int64_t inputs, std::int64_t outputs, std::int64_t expansion,
                   std::int64_t stride)
      : has_shortcut_(stride == 1 && inputs == outputs) {
    const auto parts = internal::register_container(*this, "conv");
    const std::int64_t width = inputs * expansion;
    std::size_t number = 0;
    const auto add = [&](const ConvolutionShape& shape) {
      layers_.push_back(parts->register_module(std::to_string(number++),
                                               std::make_shared<ConvolutionNorm>(shape, true)));
    };
    if (expansion != 1) add({.inputs = inputs, .outputs = width});
    add({width, width, 3, stride, width});
    projection_ = parts->register_module(
        std::to_string(number++), internal::convolution({.inputs = width, .outputs = outputs}));
    norm_ = parts->register_module(std::to_string(number), torch::nn::BatchNorm2d(outputs));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = x;
    for (const auto& layer : layers_) y = layer->forward(y);
    y = norm_->forward(projection_->forward(y));
    return has_shortcut_ ? x + y : y;
  }

 private:
  bool has_shortcut_;
  std::vector<std::shared_ptr<ConvolutionNorm>> layers_;
  torch::nn::Conv2d projection_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
};

void check(const MobileNetV2Options& options) {
  internal::check_positive("MobileNetV2Options::num_classes", options.num_classes);
  if (!(options.width > 0)) {
    throw InvalidArgument("MobileNetV2Options::width must be positive: {}", options.width);
  }
  if (options.last_channels < 0) {
    throw InvalidArgument("MobileNetV2Options::last_channels must not be negative: {}",
                          options.last_channels);
  }
  for (const auto& stage : options.stages) {
    for (const auto value : {stage.expansion, stage.channels, stage.units, stage.stride}) {
      internal::check_positive("numbers of MobileNetV2Options::stages", value);
    }
  }
}

class MobileNetV2 : public internal::ImageNetwork {
 public:
  explicit MobileNetV2(const MobileNetV2Options& options)
      : ImageNetwork("mobilenet_v2", options.image, options.channels) {
    const auto features = internal::register_container(*this, "features");
    std::int64_t inputs = scaled_channels(32 * options.width);
    stem_ = features->register_module(
        "0",
        std::make_shared<ConvolutionNorm>(ConvolutionShape{options.channels, inputs, 3, 2}, true));
    for (const MobileNetV2Stage& stage : options.stages) {
      const std::int64_t outputs =
          scaled_channels(static_cast<double>(stage.channels) * options.width);
      for (std::int64_t unit = 0; unit < stage.units; ++unit) {
        units_.push_back(features->register_module(
            std::to_string(units_.size() + 1),
            std::make_shared<InvertedResidual>(inputs, outputs, stage.expansion,
                                               unit == 0 ? stage.stride : 1)));
        inputs = outputs;
      }
    }
    const std::int64_t last = options.last_channels > 0
                                  ? options.last_channels
                                  : scaled_channels(1280 * std::max(1.0, options.width));
    last_ =
        features->register_module(std::to_string(units_.size() + 1),
                                  std::make_shared<ConvolutionNorm>(
                                      ConvolutionShape{.inputs = inputs, .outputs = last}, true));
    const auto classifier = internal::register_container(*this, "classifier");
    dropout_ = internal::register_dropout(*classifier, "0", options.dropout);
    logits_ = classifier->register_module("1", torch::nn::Linear(last, options.num_classes));
    const torch::NoGradGuard no_grad;
    logits_->weight.normal_(0, 0.01);
    logits_->bias.zero_();
  }

  torch::Tensor logits(const torch::Tensor& images) override {
    check_images(images);
    auto x = stem_->forward(images);
    for (const auto& unit : units_) x = unit->forward(x);
    x = at::adaptive_avg_pool2d(last_->forward(x), {1, 1}).flatten(1);
    return logits_->forward(internal::dropped(dropout_, x));
  }

 private:
  std::shared_ptr<ConvolutionNorm> stem_, last_;
  std::vector<std::shared_ptr<InvertedResidual>> units_;
  std::shared_ptr<Dropout> dropout_;
  torch::nn::Linear logits_{nullptr};
};

}  // namespace

std::shared_ptr<Network> mobilenet_v2(const MobileNetV2Options& options) {
  check(options);
  return std::make_shared<MobileNetV2>(options);
}

}  // namespace muster::zoo
