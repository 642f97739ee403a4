#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster {

/// A picture: bytes row by row, pixel by pixel, channel by channel.
struct Image {
  std::int64_t height = 0;
  std::int64_t width = 0;
  /// 1 grey, 3 RGB.
  std::int64_t channels = 3;
  std::vector<std::uint8_t> pixels{};

  /// Bytes of a row.
  std::size_t row_bytes() const { return static_cast<std::size_t>(width * channels); }
  std::uint8_t* row(std::int64_t y) {
    return pixels.data() + static_cast<std::size_t>(y) * row_bytes();
  }
  const std::uint8_t* row(std::int64_t y) const {
    return pixels.data() + static_cast<std::size_t>(y) * row_bytes();
  }
  bool operator==(const Image&) const = default;
};

/// A part of a picture; its edges may lie between pixels.
struct ImageBox {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;

  bool operator==(const ImageBox&) const = default;
};

/// A picture and its class.
struct LabelledImage {
  Image image{};
  std::int64_t label = 0;
};

}  // namespace muster
