#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/data/images/image.h"
#include "muster/data/images/resize.h"

namespace muster {

enum class ImageFormat : std::uint8_t { kJpeg, kPng, kWebp };

/// "JPEG", "PNG", "WebP".
std::string_view name_of(ImageFormat format);

/// The beginning of a file says so; its name does not count.
struct ImageHeader {
  ImageFormat format = ImageFormat::kJpeg;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

struct DecodeOptions {
  /// 3 for RGB or 1 for grey, whatever the file has. What is transparent loses its transparency.
  std::int64_t channels = 3;
  /// A file that says that it has more pixels is refused before memory is taken for them. A decoder
  /// takes up to ten bytes for each.
  std::int64_t max_pixels = std::int64_t{1} << 26;
  /// Parts of a JPEG that are to become half as large or smaller are decoded at that size, which
  /// averages squares of 2 x 2, 4 x 4 or 8 x 8 pixels: quicker, and not the same bits.
  bool shrink_on_load = true;
};

namespace internal {
class ImageCodec;
}  // namespace internal

/// A JPEG, PNG or WebP file in memory, whose header has been read. Belongs to one thread. What a
/// file says of its orientation, colour profile and gamma is not looked at, and of an animation
/// nothing is taken.
class ImageDecoder {
 public:
  /// `bytes` and `name` outlive it; `name` stands for the file in messages. Throws DataLoss, with
  /// the offset and the decoder's reason, where the header is damaged or of no known format, and
  /// ResourceExhausted for more pixels than the options allow.
  ImageDecoder(std::string_view bytes, std::string_view name, const DecodeOptions& options = {});
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  const ImageHeader& header() const;

  /// These throw DataLoss for damage, with offset and reason.
  Image decode();
  /// The part in `box` as `height` x `width` pixels. What lies below it in the file is not decoded,
  /// so damage there is not found. Throws InvalidArgument as resize() does.
  Image decode_resized(const ImageBox& box, std::int64_t height, std::int64_t width,
                       ResizeFilter filter = ResizeFilter::kBilinear);

 private:
  DecodeOptions options_;
  std::unique_ptr<internal::ImageCodec> codec_;
};

}  // namespace muster
