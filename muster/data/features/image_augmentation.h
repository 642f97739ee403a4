#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "muster/base/random.h"

namespace muster {

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;

  std::int64_t pixels() const { return height * width; }
  bool operator==(const ImageSize&) const = default;
};

/// How parts are cut out of images.
struct CropOptions {
  /// Size of the input, and of the part that is cut out of it.
  ImageSize image{32, 32};
  ImageSize crop{32, 32};
  /// Zeros around the image, on every side, before it is cut.
  std::int64_t padding = 0;
  /// Whether random crops exchange left and right half of the time.
  bool mirror = false;

  /// Throws InvalidArgument for sizes that are not positive, a negative padding, or a crop that is
  /// larger than the image with its padding.
  void check() const;
};

/// The part of one image: where its corner is in the image. What is outside of the image is
/// zero.
struct Crop {
  std::int64_t top = 0;
  std::int64_t left = 0;
  bool mirrored = false;

  bool operator==(const Crop&) const = default;
};

/// Every place is equally likely.
Crop random_crop(const CropOptions& options, Random& random);
/// The middle, which for odd margins is the pixel above and to the left of it.
Crop central_crop(const CropOptions& options);

/// Cuts a part out of an image of planes, [channels, height, width], and lays it out by pixels,
/// [height, width, channels]. The spans must have these sizes; one of them gives the number of
/// channels.
void crop_planes(std::span<const std::uint8_t> planes, const CropOptions& options, const Crop& crop,
                 std::span<std::uint8_t> pixels);

/// The same for a batch, on whatever device it is: `images` [n, height, width, channels] of any
/// type, `crops` as crops_tensor() makes them. Throws InvalidArgument for other shapes.
at::Tensor crop_images(const at::Tensor& images, const at::Tensor& crops,
                       const CropOptions& options);
/// int64 [n, 3]: top, left, mirrored.
at::Tensor crops_tensor(std::span<const Crop> crops);

/// Adds `delta` to every value.
void adjust_brightness(std::span<float> pixels, float delta);
/// Moves every value of an image [pixels, channels] away from its channel's mean, or towards it for
/// factors below 1.
void adjust_contrast(std::span<float> pixels, std::int64_t channels, float factor);

/// Each image with mean 0 and variance 1, as tf.image.per_image_standardization: float
/// [n, height, width, channels]. The deviation of an image that is nearly of one colour counts as
/// 1 / sqrt(values). Throws InvalidArgument for images of another shape.
at::Tensor whiten(const at::Tensor& images);

}  // namespace muster
