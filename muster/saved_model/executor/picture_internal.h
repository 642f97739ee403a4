#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace muster::executor {

/// How the pixels of a file are to be given.
struct PictureOptions {
  /// 0: as many as the file has.
  int channels = 0;
  /// Options of JPEG: 1, 2, 4 or 8 times smaller; smooth chroma; the slower, exact transform;
  /// whether a file that ends early is given as far as it goes, at any rate or from this part of
  /// its rows on.
  int ratio = 1;
  bool fancy_upscaling = true;
  bool exact_transform = true;
  bool recover_truncated = false;
  float acceptable_fraction = 1;
  /// Option of PNG: whether samples of 16 bits stay so; else their low bits are dropped.
  bool keep_16_bits = false;
};

/// Size of the picture that a file declares, in the form that the options ask for.
struct PictureSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  /// 1, or 2 in the order of this machine.
  std::int64_t bytes_per_sample = 1;
  /// Memory that the decoder itself needs beside the pixels.
  std::int64_t working_bytes = 0;
};

/// Where the pixels go, row by row; called once, before memory is taken for them, and may throw.
using PictureMemory = std::function<unsigned char*(const PictureSize& size)>;
/// Called now and then while a file is decoded; may throw to end it.
using PictureProgress = std::function<void()>;

bool is_jpeg(std::string_view bytes);
bool is_png(std::string_view bytes);

/// Both throw InvalidArgument, with the library's reason, for bytes that are no such picture.
void decode_jpeg(std::string_view bytes, const PictureOptions& options, const PictureMemory& memory,
                 const PictureProgress& progress);
void decode_png(std::string_view bytes, const PictureOptions& options, const PictureMemory& memory);

}  // namespace muster::executor
