#include <webp/decode.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/images/image_codec_internal.h"

namespace muster::internal {
namespace {

// Smooth chroma looks at its neighbours: so many pixels beside an area make it the same as in the
// whole picture.
constexpr std::int64_t kMarginPixels = 2;

std::string_view reason_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "there is no memory for it";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it has a feature that libwebp does not know";
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "the file ends early";
    default:
      return "its bitstream is invalid";
  }
}

std::size_t little_endian(std::string_view bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

// libwebp says of damage that there is some: its place is that of the chunk with the pixels, or the
// end of a file that has no whole one.
std::size_t pixels_offset(std::string_view bytes) {
  std::size_t at = 12;
  while (at + 8 <= bytes.size()) {
    const std::string_view tag = bytes.substr(at, 4);
    const std::size_t size = little_endian(bytes.substr(at + 4, 4));
    if (size > bytes.size() - at - 8) return bytes.size();
    if (tag == "VP8 " || tag == "VP8L") return at;
    at += 8 + size + size % 2;
  }
  return bytes.size();
}

const std::uint8_t* webp_bytes(std::string_view bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

void to_grey(const std::vector<std::uint8_t>& colours, Image& image) {
  const std::uint8_t* from = colours.data();
  for (std::uint8_t& grey : image.pixels) {
    grey = grey_of(from[0], from[1], from[2]);
    from += 3;
  }
}

class WebpCodec final : public ImageCodec {
 public:
  WebpCodec(std::string_view bytes, std::string_view name, const DecodeOptions& options)
      : bytes_(bytes), name_(name), channels_(options.channels) {
    WebPBitstreamFeatures features;
    check(WebPGetFeatures(webp_bytes(bytes_), bytes_.size(), &features));
    if (features.has_animation != 0) {
      throw Unimplemented("{}: the WebP is an animation; save one of its frames as a picture",
                          name_);
    }
    header_ = {.format = ImageFormat::kWebp, .height = features.height, .width = features.width};
    check_image_size(header_, name_, options);
  }

  Image decode(const PixelArea& area, std::int64_t) override {
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0) throw Internal("libwebp is of another version");
    // libwebp begins at even pixels.
    const std::int64_t top = std::max<std::int64_t>(0, area.top / 2 * 2 - kMarginPixels);
    const std::int64_t left = std::max<std::int64_t>(0, area.left / 2 * 2 - kMarginPixels);
    const std::int64_t height = std::min(header_.height, area.bottom + kMarginPixels) - top;
    const std::int64_t width = std::min(header_.width, area.right + kMarginPixels) - left;
    config.options.use_cropping = 1;
    config.options.crop_top = static_cast<int>(top);
    config.options.crop_left = static_cast<int>(left);
    config.options.crop_height = static_cast<int>(height);
    config.options.crop_width = static_cast<int>(width);
    std::vector<std::uint8_t> colours(static_cast<std::size_t>(height * width * 3));
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = colours.data();
    config.output.u.RGBA.stride = static_cast<int>(3 * width);
    config.output.u.RGBA.size = colours.size();
    const VP8StatusCode status = WebPDecode(webp_bytes(bytes_), bytes_.size(), &config);
    WebPFreeDecBuffer(&config.output);
    check(status);
    return cut(std::move(colours), width, area.top - top, area.left - left, area);
  }

 private:
  void check(VP8StatusCode status) const {
    if (status == VP8_STATUS_OK) return;
    throw_damage(ImageFormat::kWebp, name_, pixels_offset(bytes_), bytes_.size(),
                 reason_of(status));
  }

  // The area alone, in the channels that are asked for.
  Image cut(std::vector<std::uint8_t> colours, std::int64_t width, std::int64_t rows,
            std::int64_t columns, const PixelArea& area) const {
    const auto wanted = static_cast<std::size_t>(area.height() * area.width() * 3);
    if (colours.size() != wanted) {
      std::vector<std::uint8_t> part;
      part.reserve(wanted);
      for (std::int64_t y = 0; y < area.height(); ++y) {
        const auto from = colours.begin() + ((rows + y) * width + columns) * 3;
        part.insert(part.end(), from, from + area.width() * 3);
      }
      colours.swap(part);
    }
    Image image{.height = area.height(), .width = area.width(), .channels = channels_};
    if (channels_ == 3) {
      image.pixels = std::move(colours);
    } else {
      image.pixels.resize(static_cast<std::size_t>(image.height) * image.row_bytes());
      to_grey(colours, image);
    }
    return image;
  }

  std::string_view bytes_;
  std::string_view name_;
  std::int64_t channels_;
};

}  // namespace

std::unique_ptr<ImageCodec> open_webp(std::string_view bytes, std::string_view name,
                                      const DecodeOptions& options) {
  return std::make_unique<WebpCodec>(bytes, name, options);
}

}  // namespace muster::internal
