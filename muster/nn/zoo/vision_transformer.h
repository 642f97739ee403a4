#pragma once

#include <cstdint>
#include <memory>

#include "muster/nn/zoo/image_input.h"
#include "muster/nn/zoo/network.h"

namespace muster::zoo {

/// The defaults are ViT-B/16.
struct VisionTransformerOptions {
  /// Height and width of images, a multiple of patch_size.
  std::int64_t image_size = 224;
  std::int64_t patch_size = 16;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t hidden = 768;
  /// Hidden units of the dense layers in each block.
  std::int64_t mlp_units = 3072;
  double dropout = 0;
  std::int64_t channels = 3;
  std::int64_t num_classes = 1000;
  ImageInput image{};
};

/// The names are torchvision's: conv_proj.weight, class_token,
/// encoder.layers.encoder_layer_0.self_attention.in_proj_weight, heads.head.bias. The logits are
/// [batch, num_classes]. Throws InvalidArgument for options that are not positive or do not divide
/// each other.
std::shared_ptr<Network> vision_transformer(const VisionTransformerOptions& options = {});

}  // namespace muster::zoo
