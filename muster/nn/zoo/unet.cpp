#include "muster/nn/zoo/unet.h"

#include <fmt/core.h>
#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/model/metrics.h"
#include "muster/nn/zoo/image_network_internal.h"
#include "muster/nn/zoo/layers_internal.h"

namespace muster::zoo {
namespace {

/// More levels would halve any image to nothing.
constexpr std::int64_t kMostLevels = 16;

/// Two 3x3 convolutions with batch norm and ReLU: enc1conv1, enc1norm1, enc1conv2, enc1norm2.
class ConvolutionPair : public torch::nn::Module {
 public:
  ConvolutionPair(const std::string& name, std::int64_t inputs, std::int64_t outputs) {
    for (const int number : {1, 2}) {
      convolutions_.push_back(
          register_module(fmt::format("{}conv{}", name, number),
                          internal::convolution({number == 1 ? inputs : outputs, outputs, 3})));
      norms_.push_back(
          register_module(fmt::format("{}norm{}", name, number), torch::nn::BatchNorm2d(outputs)));
    }
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = x;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      y = at::relu(norms_[i]->forward(convolutions_[i]->forward(y)));
    }
    return y;
  }

 private:
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
};

void check(const UNetOptions& options) {
  internal::check_positive("UNetOptions::base_channels", options.base_channels);
  internal::check_positive("UNetOptions::levels", options.levels);
  internal::check_positive("UNetOptions::num_classes", options.num_classes);
  if (options.levels > kMostLevels) {
    throw InvalidArgument("UNetOptions::levels is at most {}: {}", kMostLevels, options.levels);
  }
}

class UNet : public internal::ImageNetwork {
 public:
  explicit UNet(const UNetOptions& options)
      : ImageNetwork("unet", options.image, options.channels), classes_(options.num_classes) {
    std::int64_t inputs = options.channels;
    std::int64_t width = options.base_channels;
    for (std::int64_t level = 1; level <= options.levels; ++level, width *= 2) {
      encoders_.push_back(register_pair(fmt::format("encoder{}", level),
                                        fmt::format("enc{}", level), inputs, width));
      inputs = width;
    }
    bottleneck_ = register_pair("bottleneck", "bottleneck", inputs, width);
    for (std::int64_t level = options.levels; level > 0; --level) {
      width /= 2;
      ups_.push_back(
          register_module(fmt::format("upconv{}", level),
                          torch::nn::ConvTranspose2d(
                              torch::nn::ConvTranspose2dOptions(2 * width, width, 2).stride(2))));
      decoders_.push_back(register_pair(fmt::format("decoder{}", level),
                                        fmt::format("dec{}", level), 2 * width, width));
    }
    logits_ =
        register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(width, classes_, 1)));
  }

  torch::Tensor logits(const torch::Tensor& images) override {
    check_images(images);
    const std::int64_t multiple = std::int64_t{1} << encoders_.size();
    if (images.size(2) % multiple != 0 || images.size(3) % multiple != 0) {
      throw InvalidArgument("unet takes images whose height and width are multiples of {}: {}",
                            multiple, describe(FeatureValue(images)));
    }
    torch::Tensor x = images;
    std::vector<torch::Tensor> skipped;
    skipped.reserve(encoders_.size());
    for (const auto& encoder : encoders_) {
      skipped.push_back(encoder->forward(x));
      x = at::max_pool2d(skipped.back(), {2, 2}, {2, 2});
    }
    x = bottleneck_->forward(x);
    for (std::size_t i = 0; i < decoders_.size(); ++i) {
      x = at::cat({ups_[i]->forward(x), skipped[skipped.size() - 1 - i]}, 1);
      x = decoders_[i]->forward(x);
    }
    return logits_->forward(x);
  }

  EstimatorSpec call(const Batch& batch, Mode mode, const Head* head) override {
    if (head != nullptr) return Model::call(batch, mode, head);
    const auto logits = forward(batch.features);
    EstimatorSpec spec{.mode = mode};
    if (mode == Mode::kPredict) {
      spec.predictions = predictions(logits);
      return checked(std::move(spec));
    }
    const auto labels = labels_of(batch, logits);
    const auto losses = pixel_losses(logits, labels);
    spec.loss = losses.mean();
    if (mode == Mode::kEval) {
      spec.metrics.add("average_loss", Mean()).update(losses.flatten());
      spec.metrics.add("accuracy", Accuracy())
          .update(labels.to(torch::kLong).flatten(), classes_of(logits).flatten());
    }
    return checked(std::move(spec));
  }

 private:
  std::shared_ptr<ConvolutionPair> register_pair(const std::string& module, const std::string& name,
                                                 std::int64_t inputs, std::int64_t outputs) {
    return register_module(module, std::make_shared<ConvolutionPair>(name, inputs, outputs));
  }

  /// [batch, height, width].
  torch::Tensor labels_of(const Batch& batch, const torch::Tensor& logits) const {
    torch::Tensor labels = batch.labels.tensor(kLabel);
    if (labels.dim() == 4 && labels.size(1) == 1) labels = labels.squeeze(1);
    const std::vector<std::int64_t> wanted{logits.size(0), logits.size(2), logits.size(3)};
    if (labels.sizes() != at::IntArrayRef(wanted)) {
      throw InvalidArgument("label \"{}\" is {}, but the logits are {}: give a class per pixel",
                            kLabel, describe(FeatureValue(labels)), describe(FeatureValue(logits)));
    }
    return labels;
  }

  torch::Tensor pixel_losses(const torch::Tensor& logits, const torch::Tensor& labels) const {
    if (classes_ == 1) {
      return at::binary_cross_entropy_with_logits(logits.squeeze(1), labels.to(logits.dtype()), {},
                                                  {}, at::Reduction::None);
    }
    return at::cross_entropy_loss(logits, labels.to(torch::kLong), {}, at::Reduction::None);
  }

  torch::Tensor classes_of(const torch::Tensor& logits) const {
    return classes_ == 1 ? (logits.squeeze(1) > 0).to(torch::kLong) : logits.argmax(1);
  }

  Features predictions(const torch::Tensor& logits) const {
    return {{"logits", logits},
            {"probabilities", classes_ == 1 ? logits.sigmoid() : logits.softmax(1)},
            {"class_ids", classes_of(logits)}};
  }

  std::int64_t classes_;
  std::vector<std::shared_ptr<ConvolutionPair>> encoders_, decoders_;
  std::shared_ptr<ConvolutionPair> bottleneck_;
  std::vector<torch::nn::ConvTranspose2d> ups_;
  torch::nn::Conv2d logits_{nullptr};
};

}  // namespace

std::shared_ptr<Network> unet(const UNetOptions& options) {
  check(options);
  return std::make_shared<UNet>(options);
}

}  // namespace muster::zoo
