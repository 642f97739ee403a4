#pragma once

#include <cstdint>
#include <memory>

#include "muster/nn/zoo/image_input.h"
#include "muster/nn/zoo/network.h"

namespace muster::zoo {

struct UNetOptions {
  /// Channels of the first level; each of the others has twice those of the one above it.
  std::int64_t base_channels = 32;
  /// How often the image is halved.
  std::int64_t levels = 4;
  std::int64_t channels = 3;
  /// Maps of logits. One stands for two classes: the pixel belongs to the object or not.
  std::int64_t num_classes = 1;
  ImageInput image{};
};

/// A class or none for every pixel. The names are those of the U-Net for brain segmentation on
/// PyTorch Hub: encoder1.enc1conv1.weight, upconv4.bias, conv.weight.
///
/// The logits are [batch, num_classes, height, width]; height and width are multiples of
/// 2^levels. An estimator has this model without a head: the label is [batch, height, width] with
/// classes, 0 and 1 where num_classes is 1; the loss is the mean cross-entropy of pixels. Metrics
/// are `accuracy` and `average_loss`, predictions `logits`, `probabilities` and `class_ids`. Throws
/// InvalidArgument for options that are not positive.
std::shared_ptr<Network> unet(const UNetOptions& options = {});

}  // namespace muster::zoo
