#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "muster/data/images/image.h"
#include "muster/data/images/image_decoder.h"

namespace muster::internal {

/// Pixels [top, bottom) x [left, right).
struct PixelArea {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t bottom = 0;
  std::int64_t right = 0;

  std::int64_t height() const { return bottom - top; }
  std::int64_t width() const { return right - left; }
};

/// One format.
class ImageCodec {
 public:
  virtual ~ImageCodec() = default;

  const ImageHeader& header() const { return header_; }
  /// The greatest of 1, 2, 4 and 8 that is no greater than `shrink` and by which this format
  /// decodes smaller.
  virtual std::int64_t possible_shrink(double shrink) const {
    (void)shrink;
    return 1;
  }
  /// The area of the picture that is `shrink` times smaller, its sizes rounded up.
  virtual Image decode(const PixelArea& area, std::int64_t shrink) = 0;

 protected:
  ImageHeader header_{};
};

/// Brightness of a colour, as JPEG has it.
inline std::uint8_t grey_of(int red, int green, int blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 32768) >> 16);
}

/// Throws InvalidArgument for a box that is empty or not inside of a picture of this size.
void check_box(const ImageBox& box, std::int64_t height, std::int64_t width);
/// Throws ResourceExhausted, or DataLoss for sizes of nothing.
void check_image_size(const ImageHeader& header, std::string_view name,
                      const DecodeOptions& options);
[[noreturn]] void throw_damage(ImageFormat format, std::string_view name, std::uint64_t offset,
                               std::uint64_t size, std::string_view reason);

std::unique_ptr<ImageCodec> open_jpeg(std::string_view bytes, std::string_view name,
                                      const DecodeOptions& options);
std::unique_ptr<ImageCodec> open_png(std::string_view bytes, std::string_view name,
                                     const DecodeOptions& options);
std::unique_ptr<ImageCodec> open_webp(std::string_view bytes, std::string_view name,
                                      const DecodeOptions& options);

}  // namespace muster::internal
