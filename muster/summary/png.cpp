#include "muster/summary/png.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::int64_t kMaxSide = 1 << 16;

void check_shape(std::size_t samples, const ImageShape& shape) {
  const auto side_ok = [](std::int64_t side) { return side >= 1 && side <= kMaxSide; };
  if (!side_ok(shape.height) || !side_ok(shape.width) || shape.channels < 1 || shape.channels > 4) {
    throw InvalidArgument(
        "an image of {} x {} pixels and {} channels cannot be written: sides are 1 to {}, channels "
        "1 to 4",
        shape.height, shape.width, shape.channels, kMaxSide);
  }
  const auto wanted = static_cast<std::size_t>(shape.height * shape.width * shape.channels);
  if (samples != wanted) {
    throw InvalidArgument("an image of {} x {} pixels and {} channels has {} samples, not {}",
                          shape.height, shape.width, shape.channels, wanted, samples);
  }
}

void append_big_endian(std::uint32_t value, std::string& out) {
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<char>(value >> shift));
}

// Length, type, data, and the CRC-32 of type and data.
void append_chunk(std::string_view type, std::string_view data, std::string& out) {
  append_big_endian(static_cast<std::uint32_t>(data.size()), out);
  const std::size_t begin = out.size();
  out.append(type).append(data);
  const auto* bytes = reinterpret_cast<const Bytef*>(out.data() + begin);
  append_big_endian(
      static_cast<std::uint32_t>(::crc32_z(::crc32_z(0, nullptr, 0), bytes, out.size() - begin)),
      out);
}

std::string header_of(const ImageShape& shape) {
  constexpr char kColourTypes[] = {0, 4, 2, 6};
  std::string header;
  append_big_endian(static_cast<std::uint32_t>(shape.width), header);
  append_big_endian(static_cast<std::uint32_t>(shape.height), header);
  header.push_back(8);  // bits a sample
  header.push_back(kColourTypes[shape.channels - 1]);
  header.append(3, '\0');  // deflate, the five filters, not interlaced
  return header;
}

// Every row begins with the number of its filter; 0 leaves the samples as they are.
std::string rows_of(std::span<const std::uint8_t> samples, const ImageShape& shape) {
  const auto row_bytes = static_cast<std::size_t>(shape.width * shape.channels);
  std::string rows;
  rows.reserve(samples.size() + static_cast<std::size_t>(shape.height));
  for (std::size_t at = 0; at < samples.size(); at += row_bytes) {
    rows.push_back('\0');
    rows.append(reinterpret_cast<const char*>(samples.data() + at), row_bytes);
  }
  return rows;
}

std::string deflate(std::string_view bytes) {
  uLongf size = ::compressBound(bytes.size());
  std::string out(size, '\0');
  const int status =
      ::compress(reinterpret_cast<Bytef*>(out.data()), &size,
                 reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()));
  if (status != Z_OK) throw Internal("zlib could not compress an image: status {}", status);
  out.resize(size);
  return out;
}

/// How samples become bytes: value * scale + offset.
struct Scaling {
  float scale = 0;
  float offset = 0;
};

Scaling scaling_of(std::span<const float> samples) {
  float lowest = 0;
  float highest = 0;
  for (const float sample : samples) {
    if (!std::isfinite(sample)) continue;
    lowest = std::min(lowest, sample);
    highest = std::max(highest, sample);
  }
  if (lowest < 0) return {127.0F / std::max(-lowest, highest), 128.0F};
  return {highest == 0 ? 0.0F : 255.0F / highest, 0.0F};
}

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

}  // namespace

std::string encode_png(std::span<const std::uint8_t> samples, const ImageShape& shape) {
  check_shape(samples.size(), shape);
  std::string png = "\x89PNG\r\n\x1a\n";
  append_chunk("IHDR", header_of(shape), png);
  append_chunk("IDAT", deflate(rows_of(samples, shape)), png);
  append_chunk("IEND", "", png);
  return png;
}

std::vector<std::uint8_t> normalize_image(std::span<const float> samples, const ImageShape& shape) {
  check_shape(samples.size(), shape);
  const auto [scale, offset] = scaling_of(samples);
  const auto channels = static_cast<std::size_t>(shape.channels);
  std::vector<std::uint8_t> bytes(samples.size());
  for (std::size_t pixel = 0; pixel < samples.size(); pixel += channels) {
    const auto values = samples.subspan(pixel, channels);
    const bool good =
        std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    for (std::size_t c = 0; c < channels; ++c) {
      const bool marked = c == 0 || (c == channels - 1 && channels % 2 == 0);  // red, and opaque
      bytes[pixel + c] =
          good ? to_byte(values[c] * scale + offset) : static_cast<std::uint8_t>(marked ? 255 : 0);
    }
  }
  return bytes;
}

}  // namespace muster
