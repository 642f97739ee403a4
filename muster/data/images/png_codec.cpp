#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/image_readers/png_reader.h"
#include "muster/data/images/image_codec_internal.h"

namespace muster::internal {
namespace {

// Text and colour profiles are not looked at, but libpng inflates some of them.
constexpr png_alloc_size_t kMaxChunkBytes = png_alloc_size_t{8} << 20;
constexpr png_uint_32 kMaxOldChunks = 1000;

// Bytes of grey or RGB, whatever the file has: RGB where it has colours.
void set_form(const PngReader& reader, bool colours_wanted) {
  png_structp png = reader.png;
  const auto colours = png_get_color_type(png, reader.info);
  const bool grey = (colours & PNG_COLOR_MASK_COLOR) == 0;
  if (colours == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (grey && png_get_bit_depth(png, reader.info) < 8) png_set_expand_gray_1_2_4_to_8(png);
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  if (colours_wanted && grey) png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
}

class PngCodec final : public ImageCodec {
 public:
  PngCodec(std::string_view bytes, std::string_view name, const DecodeOptions& options)
      : bytes_(bytes), name_(name), channels_(options.channels), state_(open()) {
    header_ = {.format = ImageFormat::kPng,
               .height = static_cast<std::int64_t>(png_get_image_height(state_->png, state_->info)),
               .width = static_cast<std::int64_t>(png_get_image_width(state_->png, state_->info))};
    check_image_size(header_, name_, options);
  }

  Image decode(const PixelArea& area, std::int64_t) override {
    // A state decodes once.
    const std::unique_ptr<PngReader> state = state_ ? std::move(state_) : open();
    check(state->attempt([&] { set_form(*state, channels_ == 3); }), *state);
    const auto channels = static_cast<std::int64_t>(png_get_channels(state->png, state->info));
    const auto line_bytes = static_cast<std::size_t>(header_.width * channels);
    if ((channels != 1 && channels != 3) ||
        png_get_rowbytes(state->png, state->info) != line_bytes) {
      throw Internal("{}: libpng gives rows of {} channels and {} bytes", name_, channels,
                     png_get_rowbytes(state->png, state->info));
    }
    const bool interlaced = png_get_interlace_type(state->png, state->info) != PNG_INTERLACE_NONE;
    Image image =
        interlaced ? read_interlaced(*state, area, channels) : read_rows(*state, area, channels);
    if (channels != channels_) make_grey(image);
    return image;
  }

 private:
  std::unique_ptr<PngReader> open() const {
    auto state = std::make_unique<PngReader>(bytes_);
    const auto read_header = [&] {
      png_set_user_limits(state->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
      png_set_chunk_malloc_max(state->png, kMaxChunkBytes);
      png_set_chunk_cache_max(state->png, kMaxOldChunks);
      png_read_info(state->png, state->info);
    };
    check(state->attempt(read_header), *state);
    return state;
  }

  void check(bool well, const PngReader& state) const {
    if (well) return;
    throw_damage(ImageFormat::kPng, name_, bytes_.size() - state.rest.size(), bytes_.size(),
                 state.message);
  }

  static bool read_row(PngReader& state, unsigned char* row) {
    return state.attempt([&] { png_read_row(state.png, row, nullptr); });
  }

  static void copy_part(const std::uint8_t* line, const PixelArea& area, std::int64_t channels,
                        std::uint8_t* to) {
    std::memcpy(to, line + area.left * channels, static_cast<std::size_t>(area.width() * channels));
  }

  static Image empty_image(std::int64_t height, std::int64_t width, std::int64_t channels) {
    Image image{.height = height, .width = width, .channels = channels};
    image.pixels.resize(static_cast<std::size_t>(height) * image.row_bytes());
    return image;
  }

  // libpng would do so by the gamma that a file names.
  static void make_grey(Image& image) {
    const std::size_t count = image.pixels.size() / 3;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint8_t* from = image.pixels.data() + 3 * i;
      image.pixels[i] = grey_of(from[0], from[1], from[2]);
    }
    image.pixels.resize(count);
    image.channels = 1;
  }

  Image read_rows(PngReader& state, const PixelArea& area, std::int64_t channels) const {
    Image image = empty_image(area.height(), area.width(), channels);
    std::vector<std::uint8_t> line(static_cast<std::size_t>(header_.width * channels));
    for (std::int64_t y = 0; y < area.bottom; ++y) {
      check(read_row(state, line.data()), state);
      if (y >= area.top) copy_part(line.data(), area, channels, image.row(y - area.top));
    }
    if (area.bottom == header_.height)
      check(state.attempt([&] { png_read_end(state.png, nullptr); }), state);
    return image;
  }

  // Seven passes over the whole picture.
  Image read_interlaced(PngReader& state, const PixelArea& area, std::int64_t channels) const {
    Image whole = empty_image(header_.height, header_.width, channels);
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
      for (std::int64_t y = 0; y < header_.height; ++y) {
        check(read_row(state, whole.row(y)), state);
      }
    }
    check(state.attempt([&] { png_read_end(state.png, nullptr); }), state);
    if (area.height() == whole.height && area.width() == whole.width) return whole;
    Image image = empty_image(area.height(), area.width(), channels);
    for (std::int64_t y = 0; y < image.height; ++y) {
      copy_part(whole.row(area.top + y), area, channels, image.row(y));
    }
    return image;
  }

  std::string_view bytes_;
  std::string_view name_;
  std::int64_t channels_;
  std::unique_ptr<PngReader> state_;
};

}  // namespace

std::unique_ptr<ImageCodec> open_png(std::string_view bytes, std::string_view name,
                                     const DecodeOptions& options) {
  return std::make_unique<PngCodec>(bytes, name, options);
}

}  // namespace muster::internal
