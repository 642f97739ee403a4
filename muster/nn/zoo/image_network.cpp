#include <torch/types.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/nn/zoo/image_network_internal.h"
#include "muster/nn/zoo/layers_internal.h"

namespace muster::zoo {
namespace {

/// [1, channels, 1, 1]. Filled on the device: nothing is copied, so that the step can be captured.
torch::Tensor per_channel(const std::vector<double>& values, const torch::Tensor& like) {
  std::vector<torch::Tensor> parts;
  parts.reserve(values.size());
  for (const double value : values) parts.push_back(at::full({1, 1, 1, 1}, value, like.options()));
  return parts.size() == 1 ? parts.front() : at::cat(parts, 1);
}

void check_per_channel(const char* field, const std::vector<double>& values,
                       std::int64_t channels) {
  if (values.size() > 1 && std::cmp_not_equal(values.size(), channels)) {
    throw InvalidArgument("ImageInput::{} has {} numbers; give one per channel ({}), one, or none",
                          field, values.size(), channels);
  }
}

}  // namespace

ImageInput imagenet_pixels(std::string feature) {
  return {.feature = std::move(feature),
          .channels_last = true,
          .scale = 1.0 / 255,
          .mean = {0.485, 0.456, 0.406},
          .standard_deviation = {0.229, 0.224, 0.225}};
}

namespace internal {

ImageNetwork::ImageNetwork(std::string architecture, ImageInput input, std::int64_t channels)
    : Network(std::move(architecture)), input_(std::move(input)), channels_(channels) {
  check_positive("channels", channels);
  check_per_channel("mean", input_.mean, channels);
  check_per_channel("standard_deviation", input_.standard_deviation, channels);
  for (const double value : input_.standard_deviation) {
    if (!(value > 0)) {
      throw InvalidArgument("ImageInput::standard_deviation must be positive: {}", value);
    }
  }
}

torch::Tensor ImageNetwork::forward(const Features& features) {
  const torch::Tensor& images = features.tensor(input_.feature);
  if (images.dim() != 4 || images.size(input_.channels_last ? 3 : 1) != channels_) {
    throw InvalidArgument(
        "feature \"{}\" is {}, but the model reads {} with {} channels; ImageInput::channels_last "
        "says where the channels are",
        input_.feature, describe(FeatureValue(images)),
        input_.channels_last ? "[batch, height, width, channels]"
                             : "[batch, channels, height, width]",
        channels_);
  }
  return logits(normalised(images));
}

void ImageNetwork::check_images(const torch::Tensor& images) const {
  if (images.dim() != 4 || images.size(1) != channels_) {
    throw InvalidArgument("{} takes images [batch, {}, height, width]: {}", name(), channels_,
                          describe(FeatureValue(images)));
  }
}

torch::Tensor ImageNetwork::normalised(const torch::Tensor& images) const {
  torch::Tensor x = images.is_floating_point() ? images : images.to(torch::kFloat);
  if (input_.channels_last) x = x.permute({0, 3, 1, 2}).contiguous();
  if (input_.scale != 1) x = x * input_.scale;
  if (!input_.mean.empty()) x = x - per_channel(input_.mean, x);
  if (!input_.standard_deviation.empty()) x = x / per_channel(input_.standard_deviation, x);
  return x;
}

}  // namespace internal
}  // namespace muster::zoo
