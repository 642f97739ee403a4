#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster {

/// The size of a picture whose samples lie row by row, pixel by pixel, channel by channel (HWC).
struct ImageShape {
  std::int64_t height = 0;
  std::int64_t width = 0;
  /// 1 grey, 2 grey and opacity, 3 RGB, 4 RGBA.
  std::int64_t channels = 1;

  bool operator==(const ImageShape&) const = default;
};

/// A PNG file of 8 bits a sample. Throws InvalidArgument when the shape is not one of a picture or
/// does not fit the number of samples.
std::string encode_png(std::span<const std::uint8_t> samples, const ImageShape& shape);

/// Samples of any range as bytes, by TensorFlow's rule for image summaries: where none is negative,
/// the largest becomes 255; else 0 becomes 128 and the one farthest from it 1 or 255. A pixel with
/// a NaN or an infinity becomes red (white in grey pictures).
std::vector<std::uint8_t> normalize_image(std::span<const float> samples, const ImageShape& shape);

}  // namespace muster
