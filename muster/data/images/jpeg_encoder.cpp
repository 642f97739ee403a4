#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "muster/base/error.h"
#include "muster/data/images/image_encoder.h"

// After <cstdio>, which it needs.
#include <jpeglib.h>

namespace muster {
namespace {

/// libjpeg's state. It is C and leaves by longjmp, over frames that hold nothing to destroy.
struct EncoderState {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf leave{};
  char message[JMSG_LENGTH_MAX] = {};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  EncoderState() = default;
  ~EncoderState() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
  EncoderState(const EncoderState&) = delete;
  EncoderState& operator=(const EncoderState&) = delete;
};

[[noreturn]] void leave_encoder(j_common_ptr info) {
  auto& state = *static_cast<EncoderState*>(info->client_data);
  info->err->format_message(info, state.message);
  std::longjmp(state.leave, 1);
}

bool encode(EncoderState& state, const Image& image, int quality) {
  if (setjmp(state.leave) != 0) return false;
  auto& info = state.info;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &state.bytes, &state.size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = static_cast<int>(image.channels);
  info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  for (std::int64_t y = 0; y < image.height; ++y) {
    // libjpeg reads it.
    auto* row = const_cast<unsigned char*>(image.row(y));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

std::string encode_jpeg(const Image& image, int quality) {
  if (quality < 1 || quality > 100) {
    throw InvalidArgument("the quality of a JPEG must be from 1 to 100: {}", quality);
  }
  const bool whole =
      image.height > 0 && image.width > 0 && (image.channels == 1 || image.channels == 3) &&
      image.pixels.size() == static_cast<std::size_t>(image.height) * image.row_bytes();
  if (!whole) {
    throw InvalidArgument("an image of {} x {} x {} and {} bytes cannot be written as JPEG",
                          image.height, image.width, image.channels, image.pixels.size());
  }
  const auto state = std::make_unique<EncoderState>();
  state->info.err = jpeg_std_error(&state->errors);
  state->errors.error_exit = leave_encoder;
  state->info.client_data = state.get();
  if (!encode(*state, image, quality)) {
    throw InvalidArgument("the image cannot be written as JPEG: {}", state->message);
  }
  return {reinterpret_cast<const char*>(state->bytes), state->size};
}

}  // namespace muster
