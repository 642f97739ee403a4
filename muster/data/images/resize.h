#pragma once

#include <cstdint>

#include "muster/data/images/image.h"

namespace muster {

/// How a pixel is made of those around its place. Where a picture becomes smaller, the filter is as
/// much wider, so that every pixel counts (antialiasing).
enum class ResizeFilter : std::uint8_t {
  /// The mean of those that fall into it.
  kBox,
  /// Weights that fall off linearly.
  kBilinear,
  /// The cubic filter with a = -0.5, which keeps edges sharper.
  kBicubic,
};

/// The part of a picture in `box` as `height` x `width` pixels. Pixels outside of the box do not
/// count, except those that its edge cuts. The same bits on every machine. Throws InvalidArgument
/// for a size that is not positive, and for a box that is empty or not inside of the picture.
Image resize(const Image& image, const ImageBox& box, std::int64_t height, std::int64_t width,
             ResizeFilter filter = ResizeFilter::kBilinear);
/// All of it.
Image resize(const Image& image, std::int64_t height, std::int64_t width,
             ResizeFilter filter = ResizeFilter::kBilinear);

}  // namespace muster
