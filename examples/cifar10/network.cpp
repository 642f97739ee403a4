#include "examples/cifar10/network.h"

#include <fmt/ranges.h>
#include <torch/types.h>

#include <memory>
#include <utility>

#include "examples/cifar10/input.h"

namespace cifar10 {

Network::Network(NetworkOptions options)
    : ResNet(options.resnet), network_options_(std::move(options)) {}

at::Tensor Network::prepared(const muster::Features& features) const {
  const muster::CropOptions& crop = network_options_.crop;
  at::Tensor images = features.tensor(kImage);
  if (features.contains(kCrop)) {
    images = muster::crop_images(images, features.tensor(kCrop), crop);
  } else if (images.dim() == 4 && images.size(1) > crop.crop.height) {
    const auto middle = muster::central_crop(crop);
    images = images.narrow(1, middle.top, crop.crop.height).narrow(2, middle.left, crop.crop.width);
  }
  // The network itself computes x / 128 - 1, which takes this back.
  return network_options_.whitening ? (muster::whiten(images) + 1) * 128 : images;
}

torch::Tensor Network::forward(const muster::Features& features) {
  return ResNet::forward({{options().feature, prepared(features)}});
}

muster::EstimatorSpec Network::call(const muster::Batch& batch, muster::Mode mode,
                                    const muster::Head* head) {
  auto spec = ResNet::call(batch, mode, head);
  if (mode == muster::Mode::kPredict) {
    spec.predictions = {{"classes", spec.predictions.tensor("class_ids").squeeze(1)},
                        {"probabilities", spec.predictions.tensor("probabilities")}};
    spec.export_outputs.clear();
    return muster::checked(std::move(spec));
  }
  // The head's has no weight decay in it; without one the run's own loss is shown, which has.
  std::erase_if(spec.summaries.scalars, [](const auto& entry) { return entry.first == "loss"; });
  spec.summaries.deferred.push_back(
      [images = batch.features.tensor(kImage)](muster::Summaries& summaries) {
        // Recoloured images are floats, and their values may be outside of what a picture shows.
        const bool bytes = images.scalar_type() == torch::kByte;
        summaries.images.emplace_back("images", bytes ? images : (images / 255).clamp(0, 1));
      });
  return spec;
}

std::vector<std::string> shape_lines(const NetworkOptions& options, int tower) {
  std::vector<std::string> lines;
  const auto& size = options.crop.crop;
  for (const auto& part : muster::resnet_shapes(options.resnet, size.height, size.width)) {
    auto sizes = part.sizes;
    if (options.resnet.channels_last && sizes.size() == 3) sizes = {sizes[1], sizes[2], sizes[0]};
    lines.push_back(fmt::format("image after unit resnet/tower_{}/{}: (?, {})", tower, part.name,
                                fmt::join(sizes, ", ")));
  }
  return lines;
}

std::string size_line(const NetworkOptions& options) {
  const auto network = std::make_shared<Network>(options);
  std::int64_t trainable = 0;
  std::int64_t trainable_scalars = 0;
  std::int64_t statistics = 0;
  std::int64_t statistics_scalars = 0;
  for (const auto& variable : muster::variables_of(*network)) {
    const bool moves = variable.name.find("/moving_") != std::string::npos;
    trainable += variable.trainable ? 1 : 0;
    trainable_scalars += variable.trainable ? variable.tensor.numel() : 0;
    statistics += moves ? 1 : 0;
    statistics_scalars += moves ? variable.tensor.numel() : 0;
  }
  return fmt::format("{} trainable scalars in {} variables, {} moving statistics in {}",
                     trainable_scalars, trainable, statistics_scalars, statistics);
}

}  // namespace cifar10
