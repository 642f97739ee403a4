#include "muster/data/image_readers/jpeg_reader.h"

#include <jerror.h>

namespace muster {
namespace {

void ignore_message(j_common_ptr) {}
void ignore_progress(j_common_ptr) {}
void init_source(j_decompress_ptr) {}
void term_source(j_decompress_ptr) {}

boolean no_more_input(j_decompress_ptr info) {
  // All bytes are taken then, for those who tell how far it came.
  info->src->bytes_in_buffer = 0;
  ERREXIT(info, JERR_INPUT_EOF);
  return FALSE;
}

void skip_input(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  jpeg_source_mgr& source = *info->src;
  if (static_cast<std::size_t>(count) > source.bytes_in_buffer) {
    source.bytes_in_buffer = 0;
    source.fill_input_buffer(info);
    return;
  }
  source.next_input_byte += count;
  source.bytes_in_buffer -= static_cast<std::size_t>(count);
}

}  // namespace

void leave_with_message(j_common_ptr info) {
  JpegReader& reader = jpeg_reader_of(info);
  info->err->format_message(info, reader.message);
  std::longjmp(reader.leave, 1);
}

JpegReader::JpegReader(std::string_view bytes) {
  info.err = jpeg_std_error(&errors);
  errors.error_exit = leave_with_message;
  errors.output_message = ignore_message;
  info.client_data = this;
  source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  source.bytes_in_buffer = bytes.size();
  source.init_source = init_source;
  source.fill_input_buffer = no_more_input;
  source.skip_input_data = skip_input;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.term_source = term_source;
  progress.progress_monitor = ignore_progress;
}

JpegReader::~JpegReader() { jpeg_destroy_decompress(&info); }

bool JpegReader::read_header() {
  return attempt([this] {
    jpeg_create_decompress(&info);
    info.src = &source;
    info.progress = &progress;
    jpeg_read_header(&info, TRUE);
  });
}

bool has_inks(const jpeg_decompress_struct& info) {
  return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
}

}  // namespace muster
