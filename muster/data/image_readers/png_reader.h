#pragma once

#include <png.h>

#include <csetjmp>
#include <string_view>

namespace muster {

/// libpng over a file in memory. libpng is C and leaves by longjmp, over frames that hold nothing
/// to destroy: its functions are called in attempt(). Warnings are ignored.
struct PngReader {
  /// The bytes must outlive it. Throws ResourceExhausted.
  explicit PngReader(std::string_view bytes);
  ~PngReader();
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  /// Calls `step`, which has nothing to destroy; false where libpng left it: `message` says why.
  template <typename Step>
  bool attempt(const Step& step) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    step();
    return true;
  }

  png_structp png = nullptr;
  png_infop info = nullptr;
  /// The bytes that libpng has not taken yet.
  std::string_view rest;
  char message[200] = {};
};

}  // namespace muster
