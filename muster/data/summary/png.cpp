#include "muster/data/summary/png.h"

#include <png.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::int64_t kMaxSide = 1 << 16;

void check_shape(std::size_t samples, const ImageShape& shape) {
  const auto side_ok = [](std::int64_t side) { return side >= 1 && side <= kMaxSide; };
  if (!side_ok(shape.height) || !side_ok(shape.width) || shape.channels < 1 || shape.channels > 4) {
    throw InvalidArgument(
        "an image of {} x {} pixels and {} channels cannot be written: sides are 1 to {}, channels "
        "1 to 4",
        shape.height, shape.width, shape.channels, kMaxSide);
  }
  const auto wanted = static_cast<std::size_t>(shape.height * shape.width * shape.channels);
  if (samples != wanted) {
    throw InvalidArgument("an image of {} x {} pixels and {} channels has {} samples, not {}",
                          shape.height, shape.width, shape.channels, wanted, samples);
  }
}

std::uint32_t format_of(std::int64_t channels) {
  constexpr std::uint32_t kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                        PNG_FORMAT_RGBA};
  return kFormats[channels - 1];
}

/// How samples become bytes: value * scale + offset.
struct Scaling {
  float scale = 0;
  float offset = 0;
};

Scaling scaling_of(std::span<const float> samples) {
  float lowest = 0;
  float highest = 0;
  for (const float sample : samples) {
    if (!std::isfinite(sample)) continue;
    lowest = std::min(lowest, sample);
    highest = std::max(highest, sample);
  }
  if (lowest < 0) return {127.0F / std::max(-lowest, highest), 128.0F};
  return {highest == 0 ? 0.0F : 255.0F / highest, 0.0F};
}

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

}  // namespace

std::string encode_png(std::span<const std::uint8_t> samples, const ImageShape& shape) {
  check_shape(samples.size(), shape);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(shape.width);
  image.height = static_cast<png_uint_32>(shape.height);
  image.format = format_of(shape.channels);
  std::string png(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = png.size();
  if (png_image_write_to_memory(&image, png.data(), &size, 0, samples.data(), 0, nullptr) == 0) {
    throw Internal("libpng could not write an image: {}", image.message);
  }
  png.resize(size);
  return png;
}

std::vector<std::uint8_t> normalize_image(std::span<const float> samples, const ImageShape& shape) {
  check_shape(samples.size(), shape);
  const auto [scale, offset] = scaling_of(samples);
  const auto channels = static_cast<std::size_t>(shape.channels);
  std::vector<std::uint8_t> bytes(samples.size());
  for (std::size_t pixel = 0; pixel < samples.size(); pixel += channels) {
    const auto values = samples.subspan(pixel, channels);
    const bool good =
        std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    for (std::size_t c = 0; c < channels; ++c) {
      const bool marked = c == 0 || (c == channels - 1 && channels % 2 == 0);  // red, and opaque
      bytes[pixel + c] =
          good ? to_byte(values[c] * scale + offset) : static_cast<std::uint8_t>(marked ? 255 : 0);
    }
  }
  return bytes;
}

}  // namespace muster
