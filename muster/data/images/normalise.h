#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/data/images/image.h"

namespace muster {

/// A channel's values become (value / 255 - mean) / deviation. The defaults are those of ImageNet,
/// which published weights are for.
struct Normalisation {
  std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};
  std::array<float, 3> deviation = {0.229F, 0.224F, 0.225F};

  /// Throws InvalidArgument for a deviation that is not positive.
  void check() const;
};

/// Planes of floats, [channels, height, width], into `out`, which has that size. Throws
/// InvalidArgument where it has not. A grey picture takes the first mean and deviation.
void normalise(const Image& image, const Normalisation& options, std::span<float> out);

/// Pictures of one size as floats, and their labels.
struct ImageBatch {
  std::int64_t count = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  /// [count, channels, height, width].
  std::vector<float> values{};
  std::vector<std::int64_t> labels{};
};

/// Throws InvalidArgument for pictures of different sizes.
ImageBatch normalised_batch(std::span<const LabelledImage> images,
                            const Normalisation& options = {});

}  // namespace muster
