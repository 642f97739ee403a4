#pragma once

#include <cstdint>
#include <string>

#include "muster/nn/zoo/image_input.h"
#include "muster/nn/zoo/network.h"

namespace muster::zoo::internal {

/// A network over images: forward() makes of the feature what logits() takes.
class ImageNetwork : public Network {
 public:
  /// Throws InvalidArgument for an ImageInput that does not fit the channels.
  ImageNetwork(std::string architecture, ImageInput input, std::int64_t channels);
  torch::Tensor forward(const Features& features) override;

 protected:
  /// Throws InvalidArgument unless the images are [batch, channels, height, width].
  void check_images(const torch::Tensor& images) const;

 private:
  torch::Tensor normalised(const torch::Tensor& images) const;

  ImageInput input_;
  std::int64_t channels_;
};

}  // namespace muster::zoo::internal
