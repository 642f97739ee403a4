#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/image_readers/jpeg_reader.h"
#include "muster/data/images/image_codec_internal.h"

// After what they need.
#include <jerror.h>

namespace muster::internal {
namespace {

// Each scan of a progressive file goes over the whole picture; files that people make have about
// ten. A large picture may have fewer, or a small file could take minutes.
constexpr std::int64_t kMostScans = 500;
constexpr std::int64_t kFewestScans = 20;
constexpr std::int64_t kMostScannedPixels = std::int64_t{1} << 30;
// Smooth chroma looks at its neighbours: so many pixels beside an area make it the same as in the
// whole picture.
constexpr std::int64_t kMargin = 4;
constexpr std::size_t kRowsAtOnce = 8;

/// A reader that takes damage for an error, and that does not go on for ever.
struct JpegState : JpegReader {
  explicit JpegState(std::string_view bytes);

  std::int64_t most_scans = kMostScans;
};

// Bytes between markers, an unknown version and the like change no pixel.
bool is_harmless(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR;
}

// libjpeg would go on after other warnings, with grey where data is missing.
void take_message(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info->err->msg_code)) leave_with_message(info);
}

void watch_scans(j_common_ptr info) {
  auto& state = static_cast<JpegState&>(jpeg_reader_of(info));
  if (state.info.input_scan_number <= state.most_scans) return;
  std::snprintf(state.message, sizeof(state.message), "it has more than %lld scans",
                static_cast<long long>(state.most_scans));
  std::longjmp(state.leave, 1);
}

JpegState::JpegState(std::string_view bytes) : JpegReader(bytes) {
  errors.emit_message = take_message;
  progress.progress_monitor = watch_scans;
}

/// Columns that libjpeg decodes: whole blocks around those that are asked for.
struct Columns {
  JDIMENSION first = 0;
  JDIMENSION count = 0;
};

void inks_to_colours(const std::uint8_t* inks, std::size_t pixels, bool inverted,
                     std::int64_t channels, std::uint8_t* out) {
  for (std::size_t i = 0; i < pixels; ++i, inks += 4) {
    const std::array<int, 3> colour = colour_of_inks(inks, inverted);
    if (channels == 3) {
      for (const int value : colour) *out++ = static_cast<std::uint8_t>(value);
    } else {
      *out++ = grey_of(colour[0], colour[1], colour[2]);
    }
  }
}

class JpegCodec final : public ImageCodec {
 public:
  JpegCodec(std::string_view bytes, std::string_view name, const DecodeOptions& options)
      : bytes_(bytes), name_(name), channels_(options.channels), state_(open()) {
    header_ = {.format = ImageFormat::kJpeg,
               .height = static_cast<std::int64_t>(state_->info.image_height),
               .width = static_cast<std::int64_t>(state_->info.image_width)};
    check_image_size(header_, name_, options);
  }

  std::int64_t possible_shrink(double shrink) const override {
    for (const std::int64_t by : {8, 4, 2}) {
      if (shrink >= static_cast<double>(by)) return by;
    }
    return 1;
  }

  Image decode(const PixelArea& area, std::int64_t shrink) override {
    // A state decodes once.
    const std::unique_ptr<JpegState> state = state_ ? std::move(state_) : open();
    auto& info = state->info;
    const bool inks = has_inks(info);
    info.out_color_space = inks ? JCS_CMYK : channels_ == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info.scale_num = 1;
    info.scale_denom = static_cast<unsigned>(shrink);
    const std::int64_t scans = kMostScannedPixels / (header_.height * header_.width);
    state->most_scans = std::clamp(scans, kFewestScans, kMostScans);
    const auto left = std::max<std::int64_t>(0, area.left - kMargin);
    const auto width = (header_.width + shrink - 1) / shrink;
    const auto right = std::min(width, area.right + kMargin);
    Columns columns{.first = static_cast<JDIMENSION>(left),
                    .count = static_cast<JDIMENSION>(right - left)};
    const auto start = [&] {
      jpeg_start_decompress(&info);
      if (columns.count < info.output_width) {
        jpeg_crop_scanline(&info, &columns.first, &columns.count);
      }
      if (area.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(area.top));
    };
    check(state->attempt(start), *state);
    Image image{.height = area.height(), .width = area.width(), .channels = channels_};
    image.pixels.resize(static_cast<std::size_t>(image.height) * image.row_bytes());
    read_area(*state, area, columns, image);
    if (info.output_scanline == info.output_height) {
      check(state->attempt([&] { jpeg_finish_decompress(&info); }), *state);
    }
    return image;
  }

 private:
  std::unique_ptr<JpegState> open() const {
    auto state = std::make_unique<JpegState>(bytes_);
    check(state->read_header(), *state);
    return state;
  }

  void check(bool well, const JpegState& state) const {
    if (well) return;
    throw_damage(ImageFormat::kJpeg, name_, bytes_.size() - state.source.bytes_in_buffer,
                 bytes_.size(), state.message);
  }

  void read_area(JpegState& state, const PixelArea& area, const Columns& columns,
                 Image& image) const {
    auto& info = state.info;
    const bool inks = info.out_color_space == JCS_CMYK;
    const bool direct = !inks && columns.count == static_cast<JDIMENSION>(area.width());
    const auto components = static_cast<std::size_t>(info.output_components);
    const std::size_t line_bytes = info.output_width * components;
    const std::size_t skipped = (static_cast<std::size_t>(area.left) - columns.first) * components;
    std::vector<std::uint8_t> lines(direct ? 0 : kRowsAtOnce * line_bytes);
    std::array<JSAMPROW, kRowsAtOnce> rows{};
    for (std::int64_t y = 0; y < image.height;) {
      const auto count = std::min<std::int64_t>(kRowsAtOnce, image.height - y);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        rows[at] = direct ? image.row(y + i) : lines.data() + at * line_bytes;
      }
      JDIMENSION done = 0;
      const auto read_rows = [&] {
        done = jpeg_read_scanlines(&info, rows.data(), static_cast<JDIMENSION>(count));
      };
      check(state.attempt(read_rows), state);
      if (done == 0) throw Internal("{}: libjpeg gave no rows", name_);
      for (JDIMENSION i = 0; i < done && !direct; ++i) {
        const std::uint8_t* from = rows[i] + skipped;
        std::uint8_t* to = image.row(y + static_cast<std::int64_t>(i));
        if (inks) {
          inks_to_colours(from, static_cast<std::size_t>(image.width), info.saw_Adobe_marker != 0,
                          channels_, to);
        } else {
          std::memcpy(to, from, image.row_bytes());
        }
      }
      y += static_cast<std::int64_t>(done);
    }
  }

  std::string_view bytes_;
  std::string_view name_;
  std::int64_t channels_;
  std::unique_ptr<JpegState> state_;
};

}  // namespace

std::unique_ptr<ImageCodec> open_jpeg(std::string_view bytes, std::string_view name,
                                      const DecodeOptions& options) {
  return std::make_unique<JpegCodec>(bytes, name, options);
}

}  // namespace muster::internal
