#include <bit>

#include "muster/base/error.h"
#include "muster/data/image_readers/png_reader.h"
#include "muster/saved_model/executor/picture_internal.h"

namespace muster::executor {
namespace {

// Asks for the channels and bits that are wanted, whatever the file has; false where it cannot.
void set_form(const PngReader& reader, int channels, bool keep_16_bits) {
  png_structp png = reader.png;
  const auto color = png_get_color_type(png, reader.info);
  const int depth = png_get_bit_depth(png, reader.info);
  const bool transparent = png_get_valid(png, reader.info, PNG_INFO_tRNS) != 0;
  const bool is_gray = (color & PNG_COLOR_MASK_COLOR) == 0;
  const bool has_alpha = (color & PNG_COLOR_MASK_ALPHA) != 0;
  png_set_packing(png);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (is_gray && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (depth == 16 && !keep_16_bits) png_set_strip_16(png);
  if (depth == 16 && keep_16_bits && std::endian::native == std::endian::little) png_set_swap(png);
  const bool want_alpha = channels % 2 == 0;
  if (!want_alpha && (has_alpha || transparent)) png_set_strip_alpha(png);
  if (want_alpha && !has_alpha) {
    if (transparent) {
      png_set_tRNS_to_alpha(png);
    } else {
      png_set_add_alpha(png, depth == 16 ? 0xFFFF : 0xFF, PNG_FILLER_AFTER);
    }
  }
  if (channels < 3 && !is_gray) png_set_rgb_to_gray(png, 1, 0.299, 0.587);
  if (channels >= 3 && is_gray) png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
}

void read_rows(const PngReader& reader, unsigned char* pixels, std::size_t row_bytes) {
  const int passes = png_get_interlace_type(reader.png, reader.info) == PNG_INTERLACE_ADAM7 ? 7 : 1;
  const auto height = png_get_image_height(reader.png, reader.info);
  for (int pass = 0; pass < passes; ++pass) {
    for (png_uint_32 row = 0; row < height; ++row) {
      png_read_row(reader.png, pixels + row * row_bytes, nullptr);
    }
  }
  png_read_end(reader.png, nullptr);
}

void check_png_step(bool well, const PngReader& reader) {
  if (!well) throw InvalidArgument("the PNG cannot be decoded: {}", reader.message);
}

// Those of the file, where a palette counts as the colours in it.
int channels_of(const PngReader& reader) {
  if (png_get_color_type(reader.png, reader.info) != PNG_COLOR_TYPE_PALETTE) {
    return png_get_channels(reader.png, reader.info);
  }
  return png_get_valid(reader.png, reader.info, PNG_INFO_tRNS) != 0 ? 4 : 3;
}

}  // namespace

bool is_png(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1A\n"); }

void decode_png(std::string_view bytes, const PictureOptions& options,
                const PictureMemory& memory) {
  PngReader reader(bytes);
  check_png_step(reader.attempt([&] { png_read_info(reader.png, reader.info); }), reader);
  const int channels = options.channels != 0 ? options.channels : channels_of(reader);
  const bool wide = options.keep_16_bits && png_get_bit_depth(reader.png, reader.info) == 16;
  const PictureSize size{
      .height = static_cast<std::int64_t>(png_get_image_height(reader.png, reader.info)),
      .width = static_cast<std::int64_t>(png_get_image_width(reader.png, reader.info)),
      .channels = channels,
      .bytes_per_sample = wide ? 2 : 1,
      // Two rows of four channels of 16 bits.
      .working_bytes =
          16 * static_cast<std::int64_t>(png_get_image_width(reader.png, reader.info))};
  unsigned char* pixels = memory(size);
  check_png_step(reader.attempt([&] { set_form(reader, channels, options.keep_16_bits); }), reader);
  const auto row_bytes =
      static_cast<std::size_t>(size.width * size.channels * size.bytes_per_sample);
  if (png_get_rowbytes(reader.png, reader.info) != row_bytes) {
    throw Unimplemented("a PNG of {} channels and {} bits as {} channels",
                        png_get_channels(reader.png, reader.info),
                        png_get_bit_depth(reader.png, reader.info), channels);
  }
  check_png_step(reader.attempt([&] { read_rows(reader, pixels, row_bytes); }), reader);
}

}  // namespace muster::executor
