#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/nn/kernels/residual_unit.h"

namespace muster::kernels {

/// The sum of a channel's values in every image, [image][channel], and something squared or
/// multiplied beside it.
struct ImageSums {
  ImageSums(std::int64_t batch_, std::int64_t channels_)
      : batch(batch_),
        channels(channels_),
        sums(static_cast<std::size_t>(batch * channels)),
        products(sums.size()) {}

  std::size_t place(std::int64_t image, std::int64_t channel) const {
    return static_cast<std::size_t>(image * channels + channel);
  }

  /// Over the images in their order.
  double sum_of(const std::vector<double>& values, std::int64_t channel) const {
    double result = 0;
    for (std::int64_t n = 0; n < batch; ++n) result += values[place(n, channel)];
    return result;
  }

  std::int64_t batch, channels;
  std::vector<double> sums;
  std::vector<double> products;
};

/// From the moments of images of `pixels` pixels: mean and deviation of the batch, and the running
/// ones with them. `products` are squares around an image's own mean.
void finish_moments(std::int64_t pixels, const ImageSums& moments,
                    const NormalisedConvolution& layer, NormalisedImages& images);

/// dx = scale * (dy - offset - slope * (x - mean)), for every channel.
struct GradientLineValues {
  std::vector<float> scale{}, offset{}, slope{}, mean{};
};

/// From the sums of dy and of dy * (x - mean): the gradients of gamma and beta, and what brings dy
/// through the normalisation.
GradientLineValues finish_gradients(std::int64_t pixels, const ImageSums& sums,
                                    const NormalisedConvolution& layer,
                                    const NormalisedImages& images, NormalisedGradients& gradients);

}  // namespace muster::kernels
