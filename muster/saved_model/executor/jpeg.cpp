#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/saved_model/executor/picture_internal.h"

// After <cstdio>, which it needs.
#include <jerror.h>
#include <jpeglib.h>

namespace muster::executor {
namespace {

// Each scan of a progressive file goes over the whole picture; files that people make have about
// ten, so that one with very many is there to take time.
constexpr int kMaxScans = 500;
constexpr JOCTET kEndOfImage[] = {0xFF, JPEG_EOI};

// libjpeg is C: it leaves by longjmp, over frames that hold nothing to destroy, and exceptions wait
// here until it has been left.
struct JpegReader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf leave{};
  char message[JMSG_LENGTH_MAX] = {};
  std::exception_ptr failure{};
  const PictureOptions* options = nullptr;
  const PictureProgress* on_progress = nullptr;
  // The rows that were whole when the file ended, or -1 if it has not.
  long rows_at_end = -1;
};

JpegReader& reader_of(void* client) { return *static_cast<JpegReader*>(client); }

[[noreturn]] void leave_jpeg(j_common_ptr info) {
  JpegReader& reader = reader_of(info->client_data);
  info->err->format_message(info, reader.message);
  std::longjmp(reader.leave, 1);
}

void ignore_message(j_common_ptr) {}
void init_source(j_decompress_ptr) {}
void term_source(j_decompress_ptr) {}

boolean fill_input(j_decompress_ptr info) {
  JpegReader& reader = reader_of(info->client_data);
  const PictureOptions& options = *reader.options;
  if (!options.recover_truncated && options.acceptable_fraction >= 1) ERREXIT(info, JERR_INPUT_EOF);
  if (reader.rows_at_end < 0) reader.rows_at_end = static_cast<long>(info->output_scanline);
  reader.source.next_input_byte = kEndOfImage;
  reader.source.bytes_in_buffer = sizeof(kEndOfImage);
  return TRUE;
}

void skip_input(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  jpeg_source_mgr& source = *info->src;
  if (static_cast<std::size_t>(count) > source.bytes_in_buffer) {
    source.bytes_in_buffer = 0;
    fill_input(info);
    return;
  }
  source.next_input_byte += count;
  source.bytes_in_buffer -= static_cast<std::size_t>(count);
}

bool went_well(JpegReader& reader) {
  try {
    if (reader.info.input_scan_number > kMaxScans) {
      throw InvalidArgument("the JPEG has more than {} scans", kMaxScans);
    }
    (*reader.on_progress)();
    return true;
  } catch (...) {
    reader.failure = std::current_exception();
    return false;
  }
}

void on_jpeg_progress(j_common_ptr info) {
  JpegReader& reader = reader_of(info->client_data);
  if (!went_well(reader)) std::longjmp(reader.leave, 1);
}

// The steps of libjpeg, each of which may leave: false then.
bool read_header(JpegReader& reader) {
  if (setjmp(reader.leave) != 0) return false;
  jpeg_create_decompress(&reader.info);
  reader.info.src = &reader.source;
  reader.info.progress = &reader.progress;
  jpeg_read_header(&reader.info, TRUE);
  return true;
}

bool start_rows(JpegReader& reader) {
  if (setjmp(reader.leave) != 0) return false;
  jpeg_start_decompress(&reader.info);
  return true;
}

bool read_row(JpegReader& reader, unsigned char* row) {
  if (setjmp(reader.leave) != 0) return false;
  JSAMPROW rows[] = {row};
  jpeg_read_scanlines(&reader.info, rows, 1);
  return true;
}

void check_step(bool well, JpegReader& reader) {
  if (well) return;
  if (reader.failure) std::rethrow_exception(reader.failure);
  throw InvalidArgument("the JPEG cannot be decoded: {}", reader.message);
}

class JpegOwner {
 public:
  explicit JpegOwner(JpegReader& reader) : reader_(reader) {}
  ~JpegOwner() { jpeg_destroy_decompress(&reader_.info); }
  JpegOwner(const JpegOwner&) = delete;
  JpegOwner& operator=(const JpegOwner&) = delete;

 private:
  JpegReader& reader_;
};

bool is_cmyk(const jpeg_decompress_struct& info) {
  return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
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

// Adobe's programs write inks the other way round.
void cmyk_to_rgb(const std::vector<unsigned char>& inks, bool inverted, unsigned char* row) {
  for (std::size_t i = 0; i + 4 <= inks.size(); i += 4) {
    const int black = inverted ? inks[i + 3] : 255 - inks[i + 3];
    for (std::size_t k = 0; k < 3; ++k) {
      const int ink = inverted ? inks[i + k] : 255 - inks[i + k];
      *row++ = static_cast<unsigned char>(black * ink / 255);
    }
  }
}

void check_truncation(const JpegReader& reader) {
  if (reader.rows_at_end < 0 || reader.options->recover_truncated) return;
  const auto rows = static_cast<float>(reader.rows_at_end);
  const auto all = static_cast<float>(reader.info.output_height);
  if (rows >= reader.options->acceptable_fraction * all) return;
  throw InvalidArgument("the JPEG ends after {} of {} rows; acceptable_fraction is {}",
                        reader.rows_at_end, reader.info.output_height,
                        reader.options->acceptable_fraction);
}

int jpeg_channels(const JpegReader& reader) {
  const int channels = reader.options->channels;
  if (channels == 0) return reader.info.num_components == 1 ? 1 : 3;
  if (channels != 1 && channels != 3) {
    throw InvalidArgument("channels must be 0, 1 or 3 for a JPEG: {}", channels);
  }
  if (channels == 1 && is_cmyk(reader.info)) {
    throw InvalidArgument("a JPEG of four inks cannot be made gray; ask for 3 channels");
  }
  return channels;
}

}  // namespace

bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xFF\xD8\xFF"); }

void decode_jpeg(std::string_view bytes, const PictureOptions& options, const PictureMemory& memory,
                 const PictureProgress& progress) {
  JpegReader reader;
  reader.options = &options;
  reader.on_progress = &progress;
  reader.info.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = leave_jpeg;
  reader.errors.output_message = ignore_message;
  reader.info.client_data = &reader;
  reader.source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  reader.source.bytes_in_buffer = bytes.size();
  reader.source.init_source = init_source;
  reader.source.fill_input_buffer = fill_input;
  reader.source.skip_input_data = skip_input;
  reader.source.resync_to_restart = jpeg_resync_to_restart;
  reader.source.term_source = term_source;
  reader.progress.progress_monitor = on_jpeg_progress;
  const JpegOwner owner(reader);
  check_step(read_header(reader), reader);

  auto& info = reader.info;
  const int channels = jpeg_channels(reader);
  const bool inks = channels == 3 && is_cmyk(info);
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
  check_step(start_rows(reader), reader);
  if (info.output_height != size.height || info.output_width != size.width) {
    throw Internal("a JPEG of {} x {} was made {} x {}", size.height, size.width,
                   info.output_height, info.output_width);
  }
  std::vector<unsigned char> line(inks ? 4 * static_cast<std::size_t>(size.width) : 0);
  for (; info.output_scanline < info.output_height; row += size.width * size.channels) {
    check_step(read_row(reader, inks ? line.data() : row), reader);
    if (inks) cmyk_to_rgb(line, info.saw_Adobe_marker != 0, row);
  }
  check_truncation(reader);
}

}  // namespace muster::executor
