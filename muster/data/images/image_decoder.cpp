#include "muster/data/images/image_decoder.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "muster/base/error.h"
#include "muster/data/images/image_codec_internal.h"

namespace muster {
namespace {

using internal::ImageCodec;
using internal::PixelArea;

std::string first_bytes(std::string_view bytes) {
  if (bytes.empty()) return "it is empty";
  std::string text = "it begins with";
  for (const char byte : bytes.substr(0, 4)) {
    text += fmt::format(" {:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

std::unique_ptr<ImageCodec> open_codec(std::string_view bytes, std::string_view name,
                                       const DecodeOptions& options) {
  if (options.channels != 1 && options.channels != 3) {
    throw InvalidArgument("channels of a decoded image must be 1 or 3: {}", options.channels);
  }
  if (bytes.starts_with("\xFF\xD8\xFF")) return internal::open_jpeg(bytes, name, options);
  if (bytes.starts_with("\x89PNG\r\n\x1A\n")) return internal::open_png(bytes, name, options);
  if (bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WEBP")) {
    return internal::open_webp(bytes, name, options);
  }
  throw DataLoss("{}: neither JPEG, PNG nor WebP at offset 0: {}", name, first_bytes(bytes));
}

// The pixels of which a box has a part.
PixelArea area_of(const ImageBox& box, std::int64_t shrink, std::int64_t height,
                  std::int64_t width) {
  const auto divisor = static_cast<double>(shrink);
  const auto floor_of = [&](double edge) {
    return static_cast<std::int64_t>(std::floor(edge / divisor));
  };
  const auto ceiling_of = [&](double edge) {
    return static_cast<std::int64_t>(std::ceil(edge / divisor));
  };
  PixelArea area{.top = floor_of(box.top),
                 .left = floor_of(box.left),
                 .bottom = ceiling_of(box.top + box.height),
                 .right = ceiling_of(box.left + box.width)};
  area.bottom = std::min(area.bottom, height);
  area.right = std::min(area.right, width);
  return area;
}

}  // namespace

std::string_view name_of(ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg:
      return "JPEG";
    case ImageFormat::kPng:
      return "PNG";
    case ImageFormat::kWebp:
      return "WebP";
  }
  return "unknown";
}

ImageDecoder::ImageDecoder(std::string_view bytes, std::string_view name,
                           const DecodeOptions& options)
    : options_(options), codec_(open_codec(bytes, name, options)) {}

ImageDecoder::~ImageDecoder() = default;

const ImageHeader& ImageDecoder::header() const { return codec_->header(); }

Image ImageDecoder::decode() {
  const ImageHeader& size = header();
  return codec_->decode({.bottom = size.height, .right = size.width}, 1);
}

Image ImageDecoder::decode_resized(const ImageBox& box, std::int64_t height, std::int64_t width,
                                   ResizeFilter filter) {
  const ImageHeader& size = header();
  internal::check_box(box, size.height, size.width);
  const double ratio = std::min(box.height / static_cast<double>(std::max<std::int64_t>(height, 1)),
                                box.width / static_cast<double>(std::max<std::int64_t>(width, 1)));
  const std::int64_t shrink = options_.shrink_on_load ? codec_->possible_shrink(ratio) : 1;
  const std::int64_t all_rows = (size.height + shrink - 1) / shrink;
  const std::int64_t all_columns = (size.width + shrink - 1) / shrink;
  const PixelArea area = area_of(box, shrink, all_rows, all_columns);
  const Image part = codec_->decode(area, shrink);
  const auto divisor = static_cast<double>(shrink);
  ImageBox inside{.top = box.top / divisor - static_cast<double>(area.top),
                  .left = box.left / divisor - static_cast<double>(area.left),
                  .height = box.height / divisor,
                  .width = box.width / divisor};
  inside.height = std::min(inside.height, static_cast<double>(part.height) - inside.top);
  inside.width = std::min(inside.width, static_cast<double>(part.width) - inside.left);
  return resize(part, inside, height, width, filter);
}

namespace internal {

void check_box(const ImageBox& box, std::int64_t height, std::int64_t width) {
  constexpr double kRounding = 1e-6;
  // Whatever is not a number fails, too.
  const bool inside = box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 &&
                      box.top + box.height <= static_cast<double>(height) + kRounding &&
                      box.left + box.width <= static_cast<double>(width) + kRounding;
  if (inside) return;
  throw InvalidArgument("a box of {} x {} at {}, {} is not inside of an image of {} x {}",
                        box.height, box.width, box.top, box.left, height, width);
}

void check_image_size(const ImageHeader& header, std::string_view name,
                      const DecodeOptions& options) {
  if (header.height <= 0 || header.width <= 0) {
    throw DataLoss("{}: the {} has {} x {} pixels", name, name_of(header.format), header.height,
                   header.width);
  }
  // Both are below 2^32.
  if (header.height > options.max_pixels / header.width) {
    throw ResourceExhausted(
        "{}: the {} says that it has {} x {} pixels, more than {} in all; raise "
        "DecodeOptions::max_pixels if that is right",
        name, name_of(header.format), header.height, header.width, options.max_pixels);
  }
}

void throw_damage(ImageFormat format, std::string_view name, std::uint64_t offset,
                  std::uint64_t size, std::string_view reason) {
  throw DataLoss("{}: the {} is damaged near offset {} of {} bytes: {}", name, name_of(format),
                 offset, size, reason);
}

}  // namespace internal
}  // namespace muster
