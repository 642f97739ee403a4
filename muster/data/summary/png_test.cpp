#include "muster/data/summary/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <limits>
#include <string>
#include <vector>

#include "muster/base/error.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

struct Decoded {
  ImageShape shape{};
  std::vector<std::uint8_t> samples{};
};

// As libpng reads it, with the channels that the file has.
Decoded decode(const std::string& png) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&image, png.data(), png.size()), 0) << image.message;
  Decoded out{.shape = {image.height, image.width, PNG_IMAGE_PIXEL_CHANNELS(image.format)}};
  out.samples.resize(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, out.samples.data(), 0, nullptr), 0)
      << image.message;
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
  }
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
