#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

// After <cstdio>, which it needs.
#include <jpeglib.h>

namespace muster {

/// libjpeg over a file in memory. libjpeg is C and leaves by longjmp, over frames that hold nothing
/// to destroy: its functions are called in attempt(). By default a file that ends early is an
/// error, and warnings are ignored; users put functions of their own into `source`, `errors` and
/// `progress`.
struct JpegReader {
  /// The bytes must outlive it.
  explicit JpegReader(std::string_view bytes);
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  /// Reads what stands before the first scan.
  bool read_header();
  /// Calls `step`, which has nothing to destroy; false where libjpeg left it: `message` says why.
  template <typename Step>
  bool attempt(const Step& step) {
    if (setjmp(leave) != 0) return false;
    step();
    return true;
  }

  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf leave{};
  char message[JMSG_LENGTH_MAX] = {};
};

/// For functions that libjpeg calls.
template <typename Info>
JpegReader& jpeg_reader_of(Info* info) {
  return *static_cast<JpegReader*>(info->client_data);
}
/// Leaves libjpeg with the error that `info` has.
[[noreturn]] void leave_with_message(j_common_ptr info);

/// Whether the picture is of the four inks of print.
bool has_inks(const jpeg_decompress_struct& info);
/// Red, green and blue of a pixel of four inks. Adobe's programs write inks the other way round.
inline std::array<int, 3> colour_of_inks(const std::uint8_t* inks, bool inverted) {
  const int black = inverted ? inks[3] : 255 - inks[3];
  std::array<int, 3> colour{};
  for (std::size_t c = 0; c < 3; ++c) {
    colour[c] = black * (inverted ? inks[c] : 255 - inks[c]) / 255;
  }
  return colour;
}

}  // namespace muster
