#include "muster/data/images/normalise.h"

#include <cstddef>

#include "muster/base/error.h"

namespace muster {
namespace {

/// Multiplier and addend of each channel.
struct Scaling {
  std::array<float, 3> factor{};
  std::array<float, 3> offset{};
};

Scaling scaling_of(const Normalisation& options) {
  Scaling scaling;
  for (std::size_t c = 0; c < 3; ++c) {
    const double deviation = static_cast<double>(options.deviation[c]);
    scaling.factor[c] = static_cast<float>(1 / (255 * deviation));
    scaling.offset[c] = static_cast<float>(-static_cast<double>(options.mean[c]) / deviation);
  }
  return scaling;
}

// Three channels are worth a loop that the compiler knows to be of three.
void scale_colours(const std::uint8_t* __restrict__ pixels, std::size_t count,
                   const Scaling& scaling, float* __restrict__ red, float* __restrict__ green,
                   float* __restrict__ blue) {
  const auto [factors, offsets] = scaling;
  for (std::size_t i = 0; i < count; ++i) {
    red[i] = static_cast<float>(pixels[3 * i]) * factors[0] + offsets[0];
    green[i] = static_cast<float>(pixels[3 * i + 1]) * factors[1] + offsets[1];
    blue[i] = static_cast<float>(pixels[3 * i + 2]) * factors[2] + offsets[2];
  }
}

std::size_t values_of(const Image& image) {
  return static_cast<std::size_t>(image.height) * image.row_bytes();
}

void check_same_size(const Image& first, const Image& image) {
  if (first.height == image.height && first.width == image.width &&
      first.channels == image.channels) {
    return;
  }
  throw InvalidArgument("a batch has images of {} x {} x {} and {} x {} x {}; resize them first",
                        first.height, first.width, first.channels, image.height, image.width,
                        image.channels);
}

}  // namespace

void Normalisation::check() const {
  for (const float one : deviation) {
    if (!(one > 0)) throw InvalidArgument("deviation must be positive: {}", one);
  }
}

void normalise(const Image& image, const Normalisation& options, std::span<float> out) {
  options.check();
  if (out.size() != values_of(image) || image.pixels.size() != out.size()) {
    throw InvalidArgument("an image of {} bytes, {} x {} x {}, has no {} values",
                          image.pixels.size(), image.height, image.width, image.channels,
                          out.size());
  }
  const Scaling scaling = scaling_of(options);
  const auto plane = static_cast<std::size_t>(image.height * image.width);
  if (image.channels == 3) {
    scale_colours(image.pixels.data(), plane, scaling, out.data(), out.data() + plane,
                  out.data() + 2 * plane);
    return;
  }
  if (image.channels != 1) {
    throw InvalidArgument("an image of {} channels cannot be normalised; 1 and 3 can",
                          image.channels);
  }
  for (std::size_t i = 0; i < plane; ++i) {
    out[i] = static_cast<float>(image.pixels[i]) * scaling.factor[0] + scaling.offset[0];
  }
}

ImageBatch normalised_batch(std::span<const LabelledImage> images, const Normalisation& options) {
  ImageBatch batch{.count = static_cast<std::int64_t>(images.size())};
  if (images.empty()) return batch;
  const Image& first = images.front().image;
  batch.channels = first.channels;
  batch.height = first.height;
  batch.width = first.width;
  const std::size_t values = values_of(first);
  batch.values.resize(images.size() * values);
  batch.labels.reserve(images.size());
  for (std::size_t i = 0; i < images.size(); ++i) {
    check_same_size(first, images[i].image);
    normalise(images[i].image, options, std::span(batch.values).subspan(i * values, values));
    batch.labels.push_back(images[i].label);
  }
  return batch;
}

}  // namespace muster
