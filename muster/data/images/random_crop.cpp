#include "muster/data/images/random_crop.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/data/records/example_parser.h"

namespace muster {
namespace {

constexpr int kDraws = 10;

void check_output_size(std::int64_t height, std::int64_t width) {
  if (height > 0 && width > 0) return;
  throw InvalidArgument("height and width of a crop must be positive: {} x {}", height, width);
}

void check_range(double low, double high, const char* names) {
  if (low > 0 && low <= high && std::isfinite(high)) return;
  throw InvalidArgument("{} of a random crop must be positive and in this order: {}, {}", names,
                        low, high);
}

/// Draws of one try, all made before any is looked at.
struct Draws {
  double area = 0;
  double ratio = 0;
  double top = 0;
  double left = 0;
};

Draws draw(Random& random) {
  Draws draws;
  draws.area = random.uniform();
  draws.ratio = random.uniform();
  draws.top = random.uniform();
  draws.left = random.uniform();
  return draws;
}

double between(double low, double high, double share) { return low + (high - low) * share; }

std::optional<ImageBox> box_of(const Draws& draws, std::int64_t height, std::int64_t width,
                               const RandomResizedCrop& options) {
  const double all = static_cast<double>(height) * static_cast<double>(width);
  const double area = all * between(options.min_area, options.max_area, draws.area);
  const double ratio =
      std::exp(between(std::log(options.min_ratio), std::log(options.max_ratio), draws.ratio));
  const double wide = std::max(1.0, std::round(std::sqrt(area * ratio)));
  const double high = std::max(1.0, std::round(std::sqrt(area / ratio)));
  const double rows = static_cast<double>(height) - high;
  const double columns = static_cast<double>(width) - wide;
  if (rows < 0 || columns < 0) return std::nullopt;
  return ImageBox{.top = std::floor(draws.top * (rows + 1)),
                  .left = std::floor(draws.left * (columns + 1)),
                  .height = high,
                  .width = wide};
}

// The largest part in the middle whose ratio is allowed.
ImageBox middle_of(std::int64_t height, std::int64_t width, const RandomResizedCrop& options) {
  const auto high = static_cast<double>(height);
  const auto wide = static_cast<double>(width);
  const double ratio = std::clamp(wide / high, options.min_ratio, options.max_ratio);
  ImageBox box{.height = high, .width = wide};
  if (wide / high < ratio) box.height = std::max(1.0, std::round(wide / ratio));
  if (wide / high > ratio) box.width = std::max(1.0, std::round(high * ratio));
  box.top = std::floor((high - box.height) / 2);
  box.left = std::floor((wide - box.width) / 2);
  return box;
}

/// A file in a record.
struct RecordedImage {
  std::string_view bytes{};
  std::string name{};
  std::int64_t label = 0;
};

RecordedImage read_recorded(const Record& record) {
  static const ExampleParser parser({"image", "label", "file"});
  const ExampleView view = parser.parse(record.bytes);
  RecordedImage image{.bytes = view[0].first_bytes()};
  if (image.bytes.empty() || view[1].kind() != FeatureKind::kInt64) {
    throw DataLoss(
        "a record has no bytes in 'image' or no integer in 'label': it is not one of `muster "
        "records "
        "write images`");
  }
  image.label = view[1].first_int64();
  image.name = view[2].first_bytes();
  if (image.name.empty()) image.name = "image of a record";
  return image;
}

}  // namespace

void RandomResizedCrop::check() const {
  check_output_size(height, width);
  check_range(min_area, max_area, "min_area and max_area");
  check_range(min_ratio, max_ratio, "min_ratio and max_ratio");
  if (max_area > 1) {
    throw InvalidArgument("max_area of a random crop must be at most 1: {}", max_area);
  }
  if (!(mirror >= 0 && mirror <= 1)) {
    throw InvalidArgument("mirror must be a probability: {}", mirror);
  }
}

ImageBox random_box(std::int64_t height, std::int64_t width, const RandomResizedCrop& options,
                    Random& random) {
  std::optional<ImageBox> box;
  for (int i = 0; i < kDraws; ++i) {
    const Draws draws = draw(random);
    if (!box) box = box_of(draws, height, width, options);
  }
  return box ? *box : middle_of(height, width, options);
}

Image random_resized_crop(ImageDecoder& decoder, const RandomResizedCrop& options, Random& random) {
  options.check();
  const ImageHeader& header = decoder.header();
  const ImageBox box = random_box(header.height, header.width, options, random);
  const bool mirrored = random.coin(options.mirror);
  Image image = decoder.decode_resized(box, options.height, options.width, options.filter);
  if (mirrored) mirror(image);
  return image;
}

void CenterCrop::check() const {
  check_output_size(height, width);
  if (resize < std::max(height, width)) {
    throw InvalidArgument("resize of a center crop must be at least its size, {} x {}: {}", height,
                          width, resize);
  }
}

ImageBox center_box(std::int64_t height, std::int64_t width, const CenterCrop& options) {
  const auto shorter = static_cast<double>(std::min(height, width));
  const double scale = shorter / static_cast<double>(options.resize);
  ImageBox box{.height = static_cast<double>(options.height) * scale,
               .width = static_cast<double>(options.width) * scale};
  box.top = std::max(0.0, (static_cast<double>(height) - box.height) / 2);
  box.left = std::max(0.0, (static_cast<double>(width) - box.width) / 2);
  return box;
}

Image center_crop(ImageDecoder& decoder, const CenterCrop& options) {
  options.check();
  const ImageBox box = center_box(decoder.header().height, decoder.header().width, options);
  return decoder.decode_resized(box, options.height, options.width, options.filter);
}

LabelledImage load_image(const ImageFile& file, const RandomResizedCrop& options, Random& random) {
  const std::string bytes = read_image_file(file.path);
  const std::string name = file.path.string();
  ImageDecoder decoder(bytes, name, options.decode);
  return {random_resized_crop(decoder, options, random), file.label};
}

LabelledImage load_image(const ImageFile& file, const CenterCrop& options) {
  const std::string bytes = read_image_file(file.path);
  const std::string name = file.path.string();
  ImageDecoder decoder(bytes, name, options.decode);
  return {center_crop(decoder, options), file.label};
}

LabelledImage load_image(const Record& record, const RandomResizedCrop& options, Random& random) {
  const RecordedImage file = read_recorded(record);
  ImageDecoder decoder(file.bytes, file.name, options.decode);
  return {random_resized_crop(decoder, options, random), file.label};
}

LabelledImage load_image(const Record& record, const CenterCrop& options) {
  const RecordedImage file = read_recorded(record);
  ImageDecoder decoder(file.bytes, file.name, options.decode);
  return {center_crop(decoder, options), file.label};
}

void mirror(Image& image) {
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::uint8_t* row = image.row(y);
    const auto channels = static_cast<std::size_t>(image.channels);
    if (image.width == 0) continue;
    std::uint8_t* left = row;
    std::uint8_t* right = row + image.row_bytes() - channels;
    for (; left < right; left += channels, right -= channels) {
      std::swap_ranges(left, left + channels, right);
    }
  }
}

}  // namespace muster
