#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/images/image.h"

// After <cstdio>, which it needs.
#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>

namespace muster::testing {

/// A picture with slopes, edges and some noise.
inline Image make_image(std::int64_t height, std::int64_t width, std::int64_t channels = 3,
                        std::uint64_t seed = 1) {
  Random random(seed);
  Image image{.height = height, .width = width, .channels = channels};
  image.pixels.reserve(static_cast<std::size_t>(height) * image.row_bytes());
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t slope = (c == 1 ? y : x) * 200 / std::max(height, width);
        const std::int64_t edge = (x / 9 + y / 7 + c) % 3 == 0 ? 40 : 0;
        const auto noise = static_cast<std::int64_t>(random.below(12));
        image.pixels.push_back(static_cast<std::uint8_t>(slope + edge + noise));
      }
    }
  }
  return image;
}

struct JpegForm {
  int quality = 90;
  /// Sampling of the first component; those of colour have 1 x 1.
  int horizontal = 2;
  int vertical = 2;
  bool progressive = false;
  int restart_rows = 0;
  /// Writes the pixels as four inks, without black, in the way of Adobe: 255 is no ink.
  bool inks = false;
};

/// A JPEG as libjpeg writes it.
inline std::string write_jpeg(const Image& image, const JpegForm& form = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = form.inks ? 4 : static_cast<int>(image.channels);
  info.in_color_space = form.inks ? JCS_CMYK : image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, form.quality, TRUE);
  if (form.progressive) jpeg_simple_progression(&info);
  info.restart_in_rows = form.restart_rows;
  if (image.channels == 3 && !form.inks) {
    info.comp_info[0].h_samp_factor = form.horizontal;
    info.comp_info[0].v_samp_factor = form.vertical;
  }
  jpeg_start_compress(&info, TRUE);
  std::vector<unsigned char> inks(form.inks ? static_cast<std::size_t>(image.width) * 4 : 0);
  for (std::int64_t y = 0; y < image.height; ++y) {
    auto* row = const_cast<unsigned char*>(image.row(y));
    if (form.inks) {
      for (std::size_t x = 0; x < static_cast<std::size_t>(image.width); ++x) {
        for (std::size_t c = 0; c < 3; ++c) {
          inks[4 * x + c] = row[3 * x + c];
        }
        inks[4 * x + 3] = 255;
      }
      row = inks.data();
    }
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string bytes(reinterpret_cast<const char*>(memory), size);
  std::free(memory);
  return bytes;
}

/// A PNG of grey or RGB as libpng writes it.
inline std::string write_png(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&png, nullptr, &size, 0, image.pixels.data(), 0, nullptr);
  std::string bytes(size, '\0');
  png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr);
  bytes.resize(size);
  return bytes;
}

/// A WebP of RGB as libwebp writes it, with all bits or with losses.
inline std::string write_webp(const Image& image, bool lossless) {
  std::uint8_t* memory = nullptr;
  const auto width = static_cast<int>(image.width);
  const auto height = static_cast<int>(image.height);
  const std::size_t size =
      lossless ? WebPEncodeLosslessRGB(image.pixels.data(), width, height, 3 * width, &memory)
               : WebPEncodeRGB(image.pixels.data(), width, height, 3 * width, 80, &memory);
  std::string bytes(reinterpret_cast<const char*>(memory), size);
  WebPFree(memory);
  return bytes;
}

}  // namespace muster::testing
