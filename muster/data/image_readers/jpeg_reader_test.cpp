#include "muster/data/image_readers/jpeg_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/base64.h"
#include "muster/testing/image_samples.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JpegReader, ReadsSizesAndRows) {
  const std::string bytes = base64_decode(testing::kBaselineJpeg);
  JpegReader reader(bytes);
  ASSERT_TRUE(reader.read_header()) << reader.message;
  EXPECT_EQ(reader.info.image_height, 5U);
  EXPECT_EQ(reader.info.image_width, 7U);
  EXPECT_FALSE(has_inks(reader.info));
  ASSERT_TRUE(reader.attempt([&] { jpeg_start_decompress(&reader.info); }));
  std::vector<unsigned char> row(std::size_t{7} * 3);
  JSAMPROW rows[] = {row.data()};
  JDIMENSION count = 0;
  EXPECT_TRUE(reader.attempt([&] { count = jpeg_read_scanlines(&reader.info, rows, 1); }));
  EXPECT_EQ(count, 1U);
}

TEST(JpegReader, SaysWhyLibjpegLeft) {
  JpegReader other("no picture");
  EXPECT_FALSE(other.read_header());
  EXPECT_THAT(other.message, HasSubstr("Not a JPEG file"));
  const std::string bytes = base64_decode(testing::kBaselineJpeg).substr(0, 100);
  JpegReader early(bytes);
  EXPECT_FALSE(early.read_header());
  EXPECT_THAT(early.message, HasSubstr("end of input"));
  EXPECT_EQ(early.source.bytes_in_buffer, 0U);
}

TEST(JpegReader, ColoursOfInksAreThoseOfBothWays) {
  const std::uint8_t inks[] = {255, 102, 0, 127};
  EXPECT_THAT(colour_of_inks(inks, /*inverted=*/true), ElementsAre(127, 50, 0));
  EXPECT_THAT(colour_of_inks(inks, /*inverted=*/false), ElementsAre(0, 76, 128));
}

}  // namespace
}  // namespace muster
