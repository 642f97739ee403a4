#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/nn/model/model.h"

namespace muster {

struct ResNetOptions {
  /// 6n + 2: a stem, three stages of n units of two convolutions, and a dense layer.
  std::int64_t num_layers = 44;
  /// Logits. It must be given.
  std::int64_t num_classes{};
  /// The share of a moving average that stays at a step, TensorFlow's decay.
  double batch_norm_decay = 0.997;
  double batch_norm_epsilon = 1e-5;
  /// The feature with the images.
  std::string feature = "image";
  /// Computes with [height, width, channels] in memory; else [channels, height, width], but where
  /// `fused` has kernels that want the other.
  bool channels_last = false;
  /// Trains with kernels of our own instead of libtorch's layers: images of 32 x 32 under autocast
  /// to bf16 as one node for the whole network, where there is a GPU that they were made for; on a
  /// CPU one node a unit, where RunConfig::reproducibility.own_cpu_kernels is on and has kernels
  /// for it.
  bool fused = true;
};

/// A residual network for small images such as CIFAR-10's: stages of 16, 32 and 64 filters, two
/// 3x3 convolutions a unit with batch norm and ReLU after them, and shortcuts without variables,
/// which pool the image and pad its channels where a stage begins.
///
/// The images are [batch, height, width, 3] with pixels from 0 to 255, of any type; the model
/// brings them to [-1, 1). Variables are named after their units:
/// resnet/stage_1/residual_v1_3/conv2d_1/kernel, .../batch_normalization_1/gamma.
class ResNet : public Model {
 public:
  /// Throws InvalidArgument for numbers of layers other than 6n + 2, no classes, a decay outside of
  /// [0, 1) or an epsilon that is not positive.
  explicit ResNet(ResNetOptions options);
  ~ResNet() override;

  /// The logits [batch, num_classes]. Throws InvalidArgument for images of another shape.
  torch::Tensor forward(const Features& features) override;
  /// The model has no dropout.
  bool draws_from_libtorch() const override { return false; }

  const ResNetOptions& options() const { return options_; }

 private:
  class Network;
  ResNetOptions options_;
  std::shared_ptr<Network> network_;
};

/// Output shape of a part of the network for one image:
/// "stage_1/residual_v1/avg_pool/", {16, 16, 16}.
struct ResNetShape {
  std::string name{};
  /// Channels, height, width; of the last two parts one number.
  std::vector<std::int64_t> sizes{};
};

/// The parts in the order in which they are computed, for images of this size. Throws as ResNet's
/// constructor does.
std::vector<ResNetShape> resnet_shapes(const ResNetOptions& options, std::int64_t height = 32,
                                       std::int64_t width = 32);

}  // namespace muster
