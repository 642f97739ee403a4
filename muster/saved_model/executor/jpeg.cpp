#include <csetjmp>
#include <cstddef>
#include <exception>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/image_readers/jpeg_reader.h"
#include "muster/saved_model/executor/picture_internal.h"

// After what they need.
#include <jerror.h>

namespace muster::executor {
namespace {

// Each scan of a progressive file goes over the whole picture; files that people make have about
// ten, so that one with very many is there to take time.
constexpr int kMaxScans = 500;
constexpr JOCTET kEndOfImage[] = {0xFF, JPEG_EOI};

/// A reader with TensorFlow's options, where exceptions wait until libjpeg has been left.
struct TensorFlowReader : JpegReader {
  TensorFlowReader(std::string_view bytes, const PictureOptions& options,
                   const PictureProgress& progress);

  std::exception_ptr failure{};
  const PictureOptions& options;
  const PictureProgress& on_progress;
  // The rows that were whole when the file ended, or -1 if it has not.
  long rows_at_end = -1;
};

template <typename Info>
TensorFlowReader& reader_of(Info* info) {
  return static_cast<TensorFlowReader&>(jpeg_reader_of(info));
}

boolean fill_input(j_decompress_ptr info) {
  TensorFlowReader& reader = reader_of(info);
  const PictureOptions& options = reader.options;
  if (!options.recover_truncated && options.acceptable_fraction >= 1) ERREXIT(info, JERR_INPUT_EOF);
  if (reader.rows_at_end < 0) reader.rows_at_end = static_cast<long>(info->output_scanline);
  reader.source.next_input_byte = kEndOfImage;
  reader.source.bytes_in_buffer = sizeof(kEndOfImage);
  return TRUE;
}

bool went_well(TensorFlowReader& reader) {
  try {
    if (reader.info.input_scan_number > kMaxScans) {
      throw InvalidArgument("the JPEG has more than {} scans", kMaxScans);
    }
    reader.on_progress();
    return true;
  } catch (...) {
    reader.failure = std::current_exception();
    return false;
  }
}

void on_jpeg_progress(j_common_ptr info) {
  TensorFlowReader& reader = reader_of(info);
  if (!went_well(reader)) std::longjmp(reader.leave, 1);
}

TensorFlowReader::TensorFlowReader(std::string_view bytes, const PictureOptions& its_options,
                                   const PictureProgress& its_progress)
    : JpegReader(bytes), options(its_options), on_progress(its_progress) {
  source.fill_input_buffer = fill_input;
  progress.progress_monitor = on_jpeg_progress;
}

void check_step(bool well, const TensorFlowReader& reader) {
  if (well) return;
  if (reader.failure) std::rethrow_exception(reader.failure);
  throw InvalidArgument("the JPEG cannot be decoded: {}", reader.message);
}

// Memory that libjpeg takes: some rows of each component, or with several scans all coefficients.
std::int64_t jpeg_working_bytes(jpeg_decompress_struct& info) {
  constexpr std::int64_t kMargin = 32;  // 8 pixels, 4 times in the largest sampling
  const auto wide = (static_cast<std::int64_t>(info.image_width) + kMargin) * info.num_components;
  const auto high = static_cast<std::int64_t>(info.image_height) + kMargin;
  constexpr std::int64_t kRows = 4 * kMargin;
  const bool all = jpeg_has_multiple_scans(&info) != 0;
  return wide * (kRows + (all ? high * static_cast<std::int64_t>(sizeof(JCOEF)) : 0));
}

void inks_to_rgb(const std::vector<unsigned char>& inks, bool inverted, unsigned char* row) {
  for (std::size_t i = 0; i + 4 <= inks.size(); i += 4) {
    for (const int value : colour_of_inks(&inks[i], inverted)) {
      *row++ = static_cast<unsigned char>(value);
    }
  }
}

void check_truncation(const TensorFlowReader& reader) {
  if (reader.rows_at_end < 0 || reader.options.recover_truncated) return;
  const auto rows = static_cast<float>(reader.rows_at_end);
  const auto all = static_cast<float>(reader.info.output_height);
  if (rows >= reader.options.acceptable_fraction * all) return;
  throw InvalidArgument("the JPEG ends after {} of {} rows; acceptable_fraction is {}",
                        reader.rows_at_end, reader.info.output_height,
                        reader.options.acceptable_fraction);
}

int jpeg_channels(const TensorFlowReader& reader) {
  const int channels = reader.options.channels;
  if (channels == 0) return reader.info.num_components == 1 ? 1 : 3;
  if (channels != 1 && channels != 3) {
    throw InvalidArgument("channels must be 0, 1 or 3 for a JPEG: {}", channels);
  }
  if (channels == 1 && has_inks(reader.info)) {
    throw InvalidArgument("a JPEG of four inks cannot be made gray; ask for 3 channels");
  }
  return channels;
}

}  // namespace

bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xFF\xD8\xFF"); }

void decode_jpeg(std::string_view bytes, const PictureOptions& options, const PictureMemory& memory,
                 const PictureProgress& progress) {
  TensorFlowReader reader(bytes, options, progress);
  check_step(reader.read_header(), reader);

  auto& info = reader.info;
  const int channels = jpeg_channels(reader);
  const bool inks = channels == 3 && has_inks(info);
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : inks ? JCS_CMYK : JCS_RGB;
  info.do_fancy_upsampling = options.fancy_upscaling ? TRUE : FALSE;
  info.dct_method = options.exact_transform ? JDCT_ISLOW : JDCT_IFAST;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(options.ratio);
  const auto scaled = [&](JDIMENSION size) { return (size + options.ratio - 1) / options.ratio; };
  const PictureSize size{.height = scaled(info.image_height),
                         .width = scaled(info.image_width),
                         .channels = channels,
                         .working_bytes = jpeg_working_bytes(info)};
  unsigned char* row = memory(size);
  check_step(reader.attempt([&] { jpeg_start_decompress(&info); }), reader);
  if (info.output_height != size.height || info.output_width != size.width) {
    throw Internal("a JPEG of {} x {} was made {} x {}", size.height, size.width,
                   info.output_height, info.output_width);
  }
  std::vector<unsigned char> line(inks ? 4 * static_cast<std::size_t>(size.width) : 0);
  for (; info.output_scanline < info.output_height; row += size.width * size.channels) {
    JSAMPROW rows[] = {inks ? line.data() : row};
    check_step(reader.attempt([&] { jpeg_read_scanlines(&info, rows, 1); }), reader);
    if (inks) inks_to_rgb(line, info.saw_Adobe_marker != 0, row);
  }
  check_truncation(reader);
}

}  // namespace muster::executor
