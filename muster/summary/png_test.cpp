#include "muster/summary/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

std::uint32_t big_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes.at(at + i));
  return value;
}

struct Decoded {
  ImageShape shape{};
  int colour_type = -1;
  std::vector<std::uint8_t> samples{};
  std::vector<std::string> chunks{};
};

// Inflates the data of one image and takes off the filter byte of each row, which must be 0.
void decode_rows(std::string_view compressed, Decoded& out) {
  const std::size_t row = static_cast<std::size_t>(out.shape.width * out.shape.channels) + 1;
  std::vector<std::uint8_t> rows(row * static_cast<std::size_t>(out.shape.height));
  uLongf size = rows.size();
  ASSERT_EQ(::uncompress(rows.data(), &size, reinterpret_cast<const Bytef*>(compressed.data()),
                         compressed.size()),
            Z_OK);
  ASSERT_EQ(size, rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i % row != 0) {
      out.samples.push_back(rows[i]);
    } else {
      ASSERT_EQ(rows[i], 0);
    }
  }
}

// A reader of the PNG files that PNG's own document describes: signature, chunks with their CRC.
Decoded decode(std::string_view png) {
  constexpr int kChannels[] = {1, 0, 3, 0, 2, 0, 4};
  Decoded out;
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  for (std::size_t at = 8; at < png.size();) {
    const std::uint32_t length = big_endian(png, at);
    const std::string_view type = png.substr(at + 4, 4);
    const std::string_view data = png.substr(at + 8, length);
    const auto* checked = reinterpret_cast<const Bytef*>(png.data() + at + 4);
    EXPECT_EQ(big_endian(png, at + 8 + length), ::crc32(0, checked, length + 4)) << type;
    out.chunks.emplace_back(type);
    if (type == "IHDR") {
      out.colour_type = data.at(9);
      out.shape = {big_endian(data, 4), big_endian(data, 0), kChannels[out.colour_type]};
      EXPECT_EQ(data.at(8), 8);
    } else if (type == "IDAT") {
      decode_rows(data, out);
    }
    at += 12 + length;
  }
  return out;
}

TEST(Png, DecodesToTheSamplesItWasMadeOf) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    const ImageShape shape{.height = 5, .width = 7, .channels = channels};
    std::vector<std::uint8_t> samples;
    for (int i = 0; i < 5 * 7 * channels; ++i) samples.push_back(static_cast<std::uint8_t>(i * 37));
    const Decoded decoded = decode(encode_png(samples, shape));
    EXPECT_EQ(decoded.shape, shape);
    EXPECT_EQ(decoded.samples, samples);
    EXPECT_THAT(decoded.chunks, ElementsAre("IHDR", "IDAT", "IEND"));
  }
}

TEST(Png, ColourTypesFollowTheChannels) {
  const auto colour_type = [](std::int64_t channels) {
    const std::vector<std::uint8_t> pixel(static_cast<std::size_t>(channels));
    return decode(encode_png(pixel, {1, 1, channels})).colour_type;
  };
  EXPECT_EQ(colour_type(1), 0);
  EXPECT_EQ(colour_type(3), 2);
  EXPECT_EQ(colour_type(4), 6);
}

TEST(Png, RefusesWhatIsNoPicture) {
  const std::vector<std::uint8_t> six(6);
  EXPECT_NO_THROW(encode_png(six, {2, 1, 3}));
  EXPECT_THROW(encode_png(six, {2, 2, 3}), InvalidArgument);
  EXPECT_THROW(encode_png(six, {6, 0, 1}), InvalidArgument);
  EXPECT_THROW(encode_png(six, {-2, -3, 1}), InvalidArgument);
  EXPECT_THROW(encode_png(six, {1, 1, 6}), InvalidArgument);
  EXPECT_THROW(encode_png({}, {std::int64_t{1} << 40, std::int64_t{1} << 40, 4}), InvalidArgument);
}

TEST(NormalizeImage, ScalesTheLargestTo255) {
  EXPECT_THAT(normalize_image(std::vector<float>{0, 0.5F, 2}, {1, 3, 1}), ElementsAre(0, 63, 255));
  EXPECT_THAT(normalize_image(std::vector<float>{0, 0}, {1, 2, 1}), ElementsAre(0, 0));
}

TEST(NormalizeImage, CentresNegativeValues) {
  EXPECT_THAT(normalize_image(std::vector<float>{-1, 0, 0.5F}, {1, 3, 1}),
              ElementsAre(1, 128, 191));
}

TEST(NormalizeImage, MarksPixelsThatAreNoNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(normalize_image(std::vector<float>{1, nan, 1, 1, 1, 1}, {1, 2, 3}),
              ElementsAre(255, 0, 0, 255, 255, 255));
  EXPECT_THAT(normalize_image(std::vector<float>{nan, 1, 1, 1}, {1, 1, 4}),
              ElementsAre(255, 0, 0, 255));
}

}  // namespace
}  // namespace muster
