#include "muster/data/features/image_augmentation.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/features/features.h"

namespace muster {
namespace {

/// Places [begin, end) of a row or column of the crop that are inside of the image.
struct Inside {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Inside inside_of(std::int64_t image, std::int64_t crop, std::int64_t offset) {
  const auto begin = std::clamp<std::int64_t>(-offset, 0, crop);
  return {begin, std::clamp<std::int64_t>(image - offset, begin, crop)};
}

// Three channels are worth a loop that the compiler knows to be of three, and can do many pixels of
// at a time.
template <bool kMirrored>
void interleave_three(const std::uint8_t* __restrict__ planes, std::int64_t plane,
                      std::int64_t count, std::uint8_t* __restrict__ out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = kMirrored ? count - 1 - i : i;
    out[3 * i] = planes[from];
    out[3 * i + 1] = planes[plane + from];
    out[3 * i + 2] = planes[2 * plane + from];
  }
}

void interleave(const std::uint8_t* planes, std::int64_t plane, std::int64_t channels,
                std::int64_t count, bool mirrored, std::uint8_t* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = mirrored ? count - 1 - i : i;
    for (std::int64_t c = 0; c < channels; ++c) *out++ = planes[c * plane + from];
  }
}

std::int64_t random_place(std::int64_t image, std::int64_t crop, std::int64_t padding,
                          Random& random) {
  const auto places = static_cast<std::uint64_t>(image + 2 * padding - crop + 1);
  return static_cast<std::int64_t>(random.below(places)) - padding;
}

void require_images(const at::Tensor& images) {
  if (images.dim() == 4) return;
  throw InvalidArgument("images must be [n, height, width, channels], but are {}",
                        describe(FeatureValue(images)));
}

}  // namespace

void CropOptions::check() const {
  if (image.height <= 0 || image.width <= 0 || crop.height <= 0 || crop.width <= 0) {
    throw InvalidArgument("sizes of images and crops must be positive: {}x{} of {}x{}", crop.height,
                          crop.width, image.height, image.width);
  }
  if (padding < 0) throw InvalidArgument("padding must not be negative: {}", padding);
  if (crop.height > image.height + 2 * padding || crop.width > image.width + 2 * padding) {
    throw InvalidArgument("a crop of {}x{} is larger than an image of {}x{} with {} around it",
                          crop.height, crop.width, image.height, image.width, padding);
  }
}

Crop random_crop(const CropOptions& options, Random& random) {
  Crop crop;
  crop.top = random_place(options.image.height, options.crop.height, options.padding, random);
  crop.left = random_place(options.image.width, options.crop.width, options.padding, random);
  crop.mirrored = options.mirror && random.coin();
  return crop;
}

Crop central_crop(const CropOptions& options) {
  const auto middle = [](std::int64_t image, std::int64_t crop) {
    return image >= crop ? (image - crop) / 2 : -((crop - image) / 2);
  };
  return {middle(options.image.height, options.crop.height),
          middle(options.image.width, options.crop.width)};
}

void crop_planes(std::span<const std::uint8_t> planes, const CropOptions& options, const Crop& crop,
                 std::span<std::uint8_t> pixels) {
  const std::int64_t plane = options.image.pixels();
  const std::int64_t channels = static_cast<std::int64_t>(planes.size()) / plane;
  const std::int64_t width = options.crop.width;
  const Inside rows = inside_of(options.image.height, options.crop.height, crop.top);
  const Inside columns = inside_of(options.image.width, width, crop.left);
  const bool whole = rows.begin == 0 && rows.end == options.crop.height && columns.begin == 0 &&
                     columns.end == width;
  if (!whole) std::memset(pixels.data(), 0, pixels.size());
  const std::int64_t count = columns.end - columns.begin;
  const std::int64_t first = crop.mirrored ? width - columns.end : columns.begin;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::uint8_t* source =
        planes.data() + (row + crop.top) * options.image.width + (columns.begin + crop.left);
    std::uint8_t* out = pixels.data() + (row * width + first) * channels;
    if (channels != 3) {
      interleave(source, plane, channels, count, crop.mirrored, out);
    } else if (crop.mirrored) {
      interleave_three<true>(source, plane, count, out);
    } else {
      interleave_three<false>(source, plane, count, out);
    }
  }
}

at::Tensor crops_tensor(std::span<const Crop> crops) {
  auto tensor = torch::empty({static_cast<std::int64_t>(crops.size()), 3}, torch::kLong);
  auto* out = tensor.data_ptr<std::int64_t>();
  for (const Crop& crop : crops) {
    *out++ = crop.top;
    *out++ = crop.left;
    *out++ = crop.mirrored ? 1 : 0;
  }
  return tensor;
}

at::Tensor crop_images(const at::Tensor& images, const at::Tensor& crops,
                       const CropOptions& options) {
  require_images(images);
  const auto count = images.size(0);
  const auto [height, width] = options.image;
  if (images.size(1) != height || images.size(2) != width || crops.dim() != 2 ||
      crops.size(0) != count || crops.size(1) != 3) {
    throw InvalidArgument("crops {} do not belong to images {} of {}x{}",
                          describe(FeatureValue(crops)), describe(FeatureValue(images)), height,
                          width);
  }
  const auto numbers = crops.options();
  const auto row = torch::arange(options.crop.height, numbers) + crops.slice(1, 0, 1);
  const auto place = torch::arange(options.crop.width, numbers).unsqueeze(0);
  const auto column =
      torch::where(crops.slice(1, 2, 3) != 0, options.crop.width - 1 - place, place) +
      crops.slice(1, 1, 2);
  const auto inside =
      ((row >= 0) & (row < height)).unsqueeze(2) & ((column >= 0) & (column < width)).unsqueeze(1);
  const auto first = (torch::arange(count, numbers) * height).unsqueeze(1);
  const auto source = ((first + row.clamp(0, height - 1)) * width).unsqueeze(2) +
                      column.clamp(0, width - 1).unsqueeze(1);
  const auto channels = images.size(3);
  const auto taken =
      images.reshape({count * height * width, channels}).index_select(0, source.flatten());
  return taken.view({count, options.crop.height, options.crop.width, channels}) *
         inside.unsqueeze(3);
}

void adjust_brightness(std::span<float> pixels, float delta) {
  for (float& value : pixels) value += delta;
}

void adjust_contrast(std::span<float> pixels, std::int64_t channels, float factor) {
  const auto stride = static_cast<std::size_t>(channels);
  const auto count = static_cast<double>(pixels.size() / stride);
  std::vector<double> sums(stride, 0.0);
  for (std::size_t i = 0; i < pixels.size(); i += stride) {
    for (std::size_t c = 0; c < stride; ++c) sums[c] += static_cast<double>(pixels[i + c]);
  }
  std::vector<float> means;
  for (const double sum : sums) means.push_back(static_cast<float>(sum / count));
  for (std::size_t i = 0; i < pixels.size(); i += stride) {
    for (std::size_t c = 0; c < stride; ++c) {
      pixels[i + c] = (pixels[i + c] - means[c]) * factor + means[c];
    }
  }
}

at::Tensor whiten(const at::Tensor& images) {
  require_images(images);
  const auto values = images.to(torch::kFloat);
  const auto centred = values - values.mean({1, 2, 3}, /*keepdim=*/true);
  const auto deviation = (centred * centred).mean({1, 2, 3}, /*keepdim=*/true).sqrt();
  const auto count = static_cast<double>(images.size(1) * images.size(2) * images.size(3));
  return centred / deviation.clamp_min(1.0 / std::sqrt(count));
}

}  // namespace muster
