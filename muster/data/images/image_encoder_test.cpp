#include "muster/data/images/image_encoder.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "muster/base/error.h"
#include "muster/data/images/image_decoder.h"
#include "muster/data/images/test_images_internal.h"

namespace muster {
namespace {

TEST(EncodeJpeg, WritesPicturesThatAreReadAgain) {
  for (const std::int64_t channels : {1, 3}) {
    // Without colours, which lose half of their resolution.
    Image image = testing::make_image(30, 41, 1);
    if (channels == 3) {
      const Image grey = image;
      image = {.height = 30, .width = 41, .channels = 3};
      for (const std::uint8_t value : grey.pixels)
        image.pixels.insert(image.pixels.end(), 3, value);
    }
    const std::string bytes = encode_jpeg(image, 98);
    const Image read = ImageDecoder(bytes, "encoded", {.channels = channels}).decode();
    ASSERT_EQ(read.pixels.size(), image.pixels.size());
    for (std::size_t i = 0; i < read.pixels.size(); ++i) {
      ASSERT_LE(std::abs(int{read.pixels[i]} - int{image.pixels[i]}), 6) << i;
    }
    EXPECT_LT(encode_jpeg(image, 20).size(), bytes.size() / 2);
  }
}

TEST(EncodeJpeg, RefusesWhatItCannotWrite) {
  const Image image = testing::make_image(3, 4);
  EXPECT_THROW(encode_jpeg(image, 0), InvalidArgument);
  EXPECT_THROW(encode_jpeg(image, 101), InvalidArgument);
  EXPECT_THROW(encode_jpeg({}), InvalidArgument);
  EXPECT_THROW(encode_jpeg({.height = 2, .width = 2, .pixels = {1}}), InvalidArgument);
  const Image wide{
      .height = 1, .width = 70'000, .channels = 1, .pixels = std::vector<std::uint8_t>(70'000)};
  EXPECT_THROW(encode_jpeg(wide), InvalidArgument);
}

}  // namespace
}  // namespace muster
