#include "muster/data/image_readers/png_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/base/base64.h"
#include "muster/testing/image_samples.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(PngReader, ReadsSizes) {
  const std::string bytes = base64_decode(testing::kInterlacedPng);
  PngReader reader(bytes);
  ASSERT_TRUE(reader.attempt([&] { png_read_info(reader.png, reader.info); })) << reader.message;
  EXPECT_EQ(png_get_image_height(reader.png, reader.info), 3U);
  EXPECT_EQ(png_get_image_width(reader.png, reader.info), 3U);
  EXPECT_LT(reader.rest.size(), bytes.size());
}

TEST(PngReader, SaysWhyLibpngLeft) {
  PngReader other("no picture");
  EXPECT_FALSE(other.attempt([&] { png_read_info(other.png, other.info); }));
  EXPECT_THAT(other.message, HasSubstr("Not a PNG file"));
  const std::string bytes = base64_decode(testing::kInterlacedPng).substr(0, 20);
  PngReader early(bytes);
  EXPECT_FALSE(early.attempt([&] { png_read_info(early.png, early.info); }));
  EXPECT_THAT(early.message, HasSubstr("the file ends early"));
}

}  // namespace
}  // namespace muster
