#include "muster/data/image_readers/png_reader.h"

#include <cstddef>
#include <cstring>

#include "muster/base/error.h"

namespace muster {
namespace {

[[noreturn]] void leave_png(png_structp png, png_const_charp message) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader.message, message, sizeof(reader.message) - 1);
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void read_png_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader.rest.size()) png_error(png, "the file ends early");
  std::memcpy(out, reader.rest.data(), count);
  reader.rest.remove_prefix(count);
}

}  // namespace

PngReader::PngReader(std::string_view bytes) : rest(bytes) {
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, leave_png, ignore_warning);
  if (png != nullptr) info = png_create_info_struct(png);
  if (info == nullptr) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    throw ResourceExhausted("there is no memory for a PNG");
  }
  png_set_read_fn(png, this, read_png_bytes);
}

PngReader::~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }

}  // namespace muster
