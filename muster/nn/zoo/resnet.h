#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/nn/zoo/image_input.h"
#include "muster/nn/zoo/network.h"

namespace muster::zoo {

/// Shape of a residual network of torchvision. The defaults are ResNet-18.
struct ResNetOptions {
  /// Units in each stage; a stage after the first halves the image and doubles the channels.
  std::vector<std::int64_t> units{2, 2, 2, 2};
  /// Whether a unit is three convolutions, 1x1, 3x3 and 1x1 with four times the channels, as from
  /// ResNet-50 on; else two of 3x3.
  bool bottleneck = false;
  /// Channels of the stem and the first stage.
  std::int64_t base_channels = 64;
  /// Groups of the 3x3 convolution of a bottleneck, and its width per group in a stage of 64
  /// channels: 32 and 4 in ResNeXt-50 32x4d.
  std::int64_t groups = 1;
  std::int64_t width_per_group = 64;
  std::int64_t channels = 3;
  std::int64_t num_classes = 1000;
  ImageInput image{};
};

/// The names are torchvision's: conv1.weight, layer1.0.bn1.running_mean, fc.bias. The logits are
/// [batch, num_classes], for images of any size. Throws InvalidArgument for options that are not
/// positive, and for groups without bottleneck.
std::shared_ptr<Network> resnet(const ResNetOptions& options = {});

}  // namespace muster::zoo
