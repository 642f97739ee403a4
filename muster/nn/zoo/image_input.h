#pragma once

#include <string>
#include <vector>

namespace muster::zoo {

/// How an image model reads its feature. By default the feature is what published models take:
/// normalised floats [batch, channels, height, width].
struct ImageInput {
  /// Name of the feature.
  std::string feature = "image";
  /// Whether the feature is [batch, height, width, channels], as in records.
  bool channels_last = false;
  /// Factor of every pixel, applied before the mean: 1.0 / 255 for bytes.
  double scale = 1;
  /// Subtracted, then divided by: a number per channel, one for all channels, or none.
  std::vector<double> mean{};
  std::vector<double> standard_deviation{};
};

/// Pixels [batch, height, width, 3] from 0 to 255, of any type, normalised with the mean and the
/// standard deviation of ImageNet, as weights of torchvision expect.
ImageInput imagenet_pixels(std::string feature = "image");

}  // namespace muster::zoo
