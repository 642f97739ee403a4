#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/nn/zoo/image_input.h"
#include "muster/nn/zoo/network.h"

namespace muster::zoo {

/// Units of one shape in MobileNetV2.
struct MobileNetV2Stage {
  /// Channels inside a unit, as a multiple of those that come in.
  std::int64_t expansion{};
  /// Channels that come out, before the width factor.
  std::int64_t channels{};
  std::int64_t units{};
  /// Stride of the first unit.
  std::int64_t stride{};
};

struct MobileNetV2Options {
  /// Factor of all channels, which then become multiples of 8.
  double width = 1;
  std::vector<MobileNetV2Stage> stages{{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                       {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  /// Channels of the last convolution; 0 stands for 1280, times the width where that is above 1.
  std::int64_t last_channels = 0;
  /// Rate of dropout before the last layer.
  double dropout = 0.2;
  std::int64_t channels = 3;
  std::int64_t num_classes = 1000;
  ImageInput image{};
};

/// The names are torchvision's: features.1.conv.0.0.weight, classifier.1.bias. The logits are
/// [batch, num_classes], for images of any size. Throws InvalidArgument for options that are not
/// positive.
std::shared_ptr<Network> mobilenet_v2(const MobileNetV2Options& options = {});

}  // namespace muster::zoo
