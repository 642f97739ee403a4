#include "muster/data/images/augment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/images/image_codec_internal.h"

namespace muster {
namespace {

constexpr std::uint8_t kFill = 128;
using Table = std::array<std::uint8_t, 256>;

std::uint8_t to_byte(double value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5, 0.0, 255.0));
}

/// Values of one channel by the table that it makes of their counts.
template <typename MakeTable>
void map_channels(Image& image, const MakeTable& make_table) {
  const auto channels = static_cast<std::size_t>(image.channels);
  for (std::size_t c = 0; c < channels; ++c) {
    std::array<std::uint64_t, 256> counts{};
    for (std::size_t i = c; i < image.pixels.size(); i += channels) ++counts[image.pixels[i]];
    const Table table = make_table(counts);
    for (std::size_t i = c; i < image.pixels.size(); i += channels) {
      image.pixels[i] = table[image.pixels[i]];
    }
  }
}

Table stretched(const std::array<std::uint64_t, 256>& counts) {
  std::size_t low = 0;
  while (low < 255 && counts[low] == 0) ++low;
  std::size_t high = 255;
  while (high > 0 && counts[high] == 0) --high;
  Table table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double place = high > low ? (static_cast<double>(i) - static_cast<double>(low)) /
                                          static_cast<double>(high - low)
                                    : static_cast<double>(i) / 255;
    table[i] = to_byte(255 * std::clamp(place, 0.0, 1.0));
  }
  return table;
}

// The rank of a value's middle among all values.
Table equalized(const std::array<std::uint64_t, 256>& counts) {
  std::uint64_t all = 0;
  std::size_t different = 0;
  for (const std::uint64_t count : counts) {
    all += count;
    different += count > 0 ? 1 : 0;
  }
  Table table{};
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double middle = static_cast<double>(below) + static_cast<double>(counts[i]) / 2;
    table[i] = different < 2 ? static_cast<std::uint8_t>(i)
                             : to_byte(255 * middle / static_cast<double>(all));
    below += counts[i];
  }
  return table;
}

void map_values(Image& image, const Table& table) {
  for (std::uint8_t& value : image.pixels) value = table[value];
}

template <typename Function>
Table table_of(const Function& function) {
  Table table{};
  for (int i = 0; i < 256; ++i) table[static_cast<std::size_t>(i)] = function(i);
  return table;
}

std::uint8_t brightness_of(const Image& image, std::size_t pixel) {
  const std::uint8_t* at = image.pixels.data() + pixel * static_cast<std::size_t>(image.channels);
  return image.channels == 1 ? at[0] : internal::grey_of(at[0], at[1], at[2]);
}

std::size_t pixels_of(const Image& image) {
  return static_cast<std::size_t>(image.height * image.width);
}

// Away from grey, or towards it.
void blend_with_grey(Image& image, double factor) {
  if (image.channels == 1) return;
  for (std::size_t i = 0; i < pixels_of(image); ++i) {
    const double grey = brightness_of(image, i);
    for (std::size_t c = 0; c < 3; ++c) {
      std::uint8_t& value = image.pixels[3 * i + c];
      value = to_byte(grey + factor * (value - grey));
    }
  }
}

void blend_with_mean(Image& image, double factor) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < pixels_of(image); ++i) sum += brightness_of(image, i);
  const double mean =
      static_cast<double>(sum) / static_cast<double>(std::max<std::size_t>(1, pixels_of(image)));
  map_values(image, table_of([&](int value) { return to_byte(mean + factor * (value - mean)); }));
}

// The smoothed picture has weights 1 around a 5, as Pillow's; edges stay as they are.
void blend_with_blurred(Image& image, double factor) {
  const Image before = image;
  const std::int64_t channels = image.channels;
  for (std::int64_t y = 1; y + 1 < image.height; ++y) {
    for (std::int64_t x = channels; x < (image.width - 1) * channels; ++x) {
      int sum = 4 * before.row(y)[x];
      for (std::int64_t dy = -1; dy <= 1; ++dy) {
        const std::uint8_t* row = before.row(y + dy) + x;
        sum += row[-channels] + row[0] + row[channels];
      }
      const double smooth = sum / 13.0;
      image.row(y)[x] = to_byte(smooth + factor * (before.row(y)[x] - smooth));
    }
  }
}

/// Where a pixel of the result comes from: x' = a x + b y + c, y' = d x + e y + f, from the middle.
struct Motion {
  double a = 1;
  double b = 0;
  double c = 0;
  double d = 0;
  double e = 1;
  double f = 0;
};

// The nearest pixel.
void move_pixels(Image& image, const Motion& motion) {
  const Image before = image;
  const double middle_x = static_cast<double>(image.width) / 2;
  const double middle_y = static_cast<double>(image.height) / 2;
  const auto channels = static_cast<std::size_t>(image.channels);
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      const double right = static_cast<double>(x) + 0.5 - middle_x;
      const double down = static_cast<double>(y) + 0.5 - middle_y;
      const double from_x = motion.a * right + motion.b * down + motion.c + middle_x;
      const double from_y = motion.d * right + motion.e * down + motion.f + middle_y;
      std::uint8_t* to = image.row(y) + x * image.channels;
      const bool inside = from_x >= 0 && from_y >= 0 && from_x < static_cast<double>(image.width) &&
                          from_y < static_cast<double>(image.height);
      if (inside) {
        const std::uint8_t* from = before.row(static_cast<std::int64_t>(from_y)) +
                                   static_cast<std::int64_t>(from_x) * image.channels;
        std::copy(from, from + channels, to);
      } else {
        std::fill(to, to + channels, kFill);
      }
    }
  }
}

void rotate(Image& image, double degrees) {
  constexpr double kDegree = 0.017453292519943295;
  const double cosine = std::cos(degrees * kDegree);
  const double sine = std::sin(degrees * kDegree);
  move_pixels(image, {.a = cosine, .b = -sine, .d = sine, .e = cosine});
}

/// Hue as a share of the circle, saturation and value as PNGs have them.
struct Hsv {
  double hue = 0;
  double saturation = 0;
  double value = 0;
};

Hsv hsv_of(const std::uint8_t* pixel) {
  const double red = pixel[0];
  const double green = pixel[1];
  const double blue = pixel[2];
  const double most = std::max({red, green, blue});
  const double range = most - std::min({red, green, blue});
  if (range == 0) return {.value = most};
  double sixth = 0;
  if (most == red) {
    sixth = (green - blue) / range;
  } else if (most == green) {
    sixth = 2 + (blue - red) / range;
  } else {
    sixth = 4 + (red - green) / range;
  }
  return {.hue = sixth / 6, .saturation = range / most, .value = most};
}

void write_hsv(const Hsv& colour, std::uint8_t* pixel) {
  constexpr std::array<double, 3> kPlaces = {5, 3, 1};
  for (std::size_t c = 0; c < 3; ++c) {
    const double turned = kPlaces[c] + colour.hue * 6;
    const double k = turned - 6 * std::floor(turned / 6);
    const double part = std::clamp(std::min(k, 4 - k), 0.0, 1.0);
    pixel[c] = to_byte(colour.value * (1 - colour.saturation * part));
  }
}

void check_image(const Image& image) {
  const bool whole =
      (image.channels == 1 || image.channels == 3) &&
      image.pixels.size() == static_cast<std::size_t>(image.height) * image.row_bytes();
  if (whole) return;
  throw InvalidArgument("an image of {} x {} x {} and {} bytes cannot be augmented", image.height,
                        image.width, image.channels, image.pixels.size());
}

void check_jitter(double value, double most, const char* name) {
  if (value >= 0 && value <= most) return;
  throw InvalidArgument("{} of a colour jitter must be from 0 to {}: {}", name, most, value);
}

/// The strength that a change has at a share of the largest one; `sign` is 1 or -1.
double strength_of(ImageChange change, double share, double sign) {
  switch (change) {
    case ImageChange::kRotate:
      return 30 * share * sign;
    case ImageChange::kSolarize:
      return 256 * (1 - share);
    case ImageChange::kPosterize:
      return 8 - std::round(4 * share);
    case ImageChange::kColour:
    case ImageChange::kContrast:
    case ImageChange::kBrightness:
    case ImageChange::kSharpness:
      return 1 + 0.9 * share * sign;
    case ImageChange::kShearX:
    case ImageChange::kShearY:
      return 0.3 * share * sign;
    case ImageChange::kTranslateX:
    case ImageChange::kTranslateY:
      return 0.45 * share * sign;
    case ImageChange::kIdentity:
    case ImageChange::kAutoContrast:
    case ImageChange::kEqualize:
      return 0;
  }
  return 0;
}

}  // namespace

void change_image(Image& image, ImageChange change, double strength) {
  check_image(image);
  if (!std::isfinite(strength)) {
    throw InvalidArgument("the strength of a change must be a finite number: {}", strength);
  }
  switch (change) {
    case ImageChange::kIdentity:
      return;
    case ImageChange::kAutoContrast:
      return map_channels(image, stretched);
    case ImageChange::kEqualize:
      return map_channels(image, equalized);
    case ImageChange::kRotate:
      return rotate(image, strength);
    case ImageChange::kSolarize:
      return map_values(image, table_of([&](int value) {
                          return static_cast<std::uint8_t>(value >= strength ? 255 - value : value);
                        }));
    case ImageChange::kPosterize: {
      const int dropped = 8 - static_cast<int>(std::clamp(strength, 0.0, 8.0));
      return map_values(image, table_of([&](int value) {
                          return static_cast<std::uint8_t>(value >> dropped << dropped);
                        }));
    }
    case ImageChange::kColour:
      return blend_with_grey(image, strength);
    case ImageChange::kContrast:
      return blend_with_mean(image, strength);
    case ImageChange::kBrightness:
      return map_values(image, table_of([&](int value) { return to_byte(value * strength); }));
    case ImageChange::kSharpness:
      return blend_with_blurred(image, strength);
    case ImageChange::kShearX:
      return move_pixels(image, {.b = strength});
    case ImageChange::kShearY:
      return move_pixels(image, {.d = strength});
    case ImageChange::kTranslateX:
      return move_pixels(image, {.c = -strength * static_cast<double>(image.width)});
    case ImageChange::kTranslateY:
      return move_pixels(image, {.f = -strength * static_cast<double>(image.height)});
  }
}

void ColourJitter::check() const {
  constexpr double kMostFactor = 100;
  check_jitter(brightness, kMostFactor, "brightness");
  check_jitter(contrast, kMostFactor, "contrast");
  check_jitter(saturation, kMostFactor, "saturation");
  check_jitter(hue, 0.5, "hue");
}

void shift_hue(Image& image, double shift) {
  check_image(image);
  if (image.channels == 1) return;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    Hsv colour = hsv_of(image.pixels.data() + i);
    if (colour.saturation == 0) continue;
    colour.hue += shift;
    write_hsv(colour, image.pixels.data() + i);
  }
}

void jitter_colours(Image& image, const ColourJitter& options, Random& random) {
  options.check();
  check_image(image);
  const auto factor = [&](double width) {
    return std::max(0.0, 1 + width * random.uniform(-1, 1));
  };
  const double brightness = factor(options.brightness);
  const double contrast = factor(options.contrast);
  const double saturation = factor(options.saturation);
  const double hue = options.hue * random.uniform(-1, 1);
  std::array<int, 4> order = {0, 1, 2, 3};
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(i)]);
  }
  for (const int step : order) {
    if (step == 0) change_image(image, ImageChange::kBrightness, brightness);
    if (step == 1) change_image(image, ImageChange::kContrast, contrast);
    if (step == 2) change_image(image, ImageChange::kColour, saturation);
    if (step == 3 && options.hue > 0) shift_hue(image, hue);
  }
}

void RandAugment::check() const {
  if (changes < 0 || changes > 100) {
    throw InvalidArgument("changes of RandAugment must be from 0 to 100: {}", changes);
  }
  if (levels < 1 || strength < 0 || strength > levels) {
    throw InvalidArgument("strength of RandAugment must be from 0 to its levels, {}: {}", levels,
                          strength);
  }
}

void rand_augment(Image& image, const RandAugment& options, Random& random) {
  options.check();
  check_image(image);
  const double share = static_cast<double>(options.strength) / options.levels;
  for (int i = 0; i < options.changes; ++i) {
    const auto change = static_cast<ImageChange>(random.below(kImageChanges));
    const double sign = random.coin() ? 1 : -1;
    change_image(image, change, strength_of(change, share, sign));
  }
}

}  // namespace muster
