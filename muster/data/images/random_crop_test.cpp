#include "muster/data/images/random_crop.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "muster/base/error.h"
#include "muster/data/images/test_images_internal.h"

namespace muster {
namespace {

TEST(RandomBox, LiesInsideWithAreasAndRatiosOfTheirRanges) {
  const RandomResizedCrop options;
  Random random(1);
  double least = 1;
  double most = 0;
  std::set<double> tops;
  for (int i = 0; i < 2000; ++i) {
    const ImageBox box = random_box(375, 500, options, random);
    ASSERT_GE(box.top, 0);
    ASSERT_GE(box.left, 0);
    ASSERT_LE(box.top + box.height, 375);
    ASSERT_LE(box.left + box.width, 500);
    const double area = box.height * box.width / (375 * 500);
    least = std::min(least, area);
    most = std::max(most, area);
    ASSERT_GT(area, 0.079);
    ASSERT_GT(box.width / box.height, 0.74);
    ASSERT_LT(box.width / box.height, 1.35);
    tops.insert(box.top);
  }
  EXPECT_LT(least, 0.1);
  EXPECT_GT(most, 0.9);
  EXPECT_GT(tops.size(), 200U);
}

TEST(RandomBox, IsTheLargestInTheMiddleWhereNoneFits) {
  Random random(2);
  const RandomResizedCrop large{.min_area = 0.99};
  EXPECT_EQ(random_box(10, 1000, large, random),
            (ImageBox{.left = 493, .height = 10, .width = 13}));
  EXPECT_EQ(random_box(1000, 12, large, random), (ImageBox{.top = 492, .height = 16, .width = 12}));
}

TEST(RandomBox, DrawsAsManyNumbersForEveryPicture) {
  Random small(3);
  Random large(3);
  random_box(10, 1000, {}, small);
  random_box(400, 400, {}, large);
  EXPECT_EQ(small.next_u64(), large.next_u64());
}

TEST(RandomResizedCrop, MirrorsAsOftenAsItIsAskedTo) {
  const std::string bytes = testing::write_png(testing::make_image(8, 8));
  const RandomResizedCrop whole{
      .height = 8, .width = 8, .min_area = 1, .min_ratio = 1, .max_ratio = 1};
  const Image image = ImageDecoder(bytes, "png").decode();
  Image mirrored = image;
  mirror(mirrored);
  int count = 0;
  Random random(4);
  for (int i = 0; i < 400; ++i) {
    ImageDecoder decoder(bytes, "png");
    const Image crop = random_resized_crop(decoder, whole, random);
    ASSERT_TRUE(crop == image || crop == mirrored);
    count += crop == mirrored ? 1 : 0;
  }
  EXPECT_NEAR(count, 200, 60);
  RandomResizedCrop never = whole;
  never.mirror = 0;
  for (int i = 0; i < 50; ++i) {
    ImageDecoder decoder(bytes, "png");
    ASSERT_EQ(random_resized_crop(decoder, never, random), image);
  }
}

TEST(Mirror, ExchangesLeftAndRight) {
  Image image{.height = 2, .width = 3, .channels = 1, .pixels = {1, 2, 3, 4, 5, 6}};
  mirror(image);
  EXPECT_THAT(image.pixels, ::testing::ElementsAre(3, 2, 1, 6, 5, 4));
  Image colours{.height = 1, .width = 2, .pixels = {1, 2, 3, 4, 5, 6}};
  mirror(colours);
  EXPECT_THAT(colours.pixels, ::testing::ElementsAre(4, 5, 6, 1, 2, 3));
}

TEST(CenterCrop, CutsTheMiddleOutAsIfTheShorterSideWereResized) {
  EXPECT_EQ(center_box(256, 512, {}),
            (ImageBox{.top = 16, .left = 144, .height = 224, .width = 224}));
  EXPECT_EQ(center_box(128, 128, {}), (ImageBox{.top = 8, .left = 8, .height = 112, .width = 112}));
  const std::string bytes = testing::write_png(testing::make_image(20, 30));
  ImageDecoder decoder(bytes, "png");
  const Image crop = center_crop(decoder, {.height = 10, .width = 10, .resize = 10});
  const ImageBox middle{.left = 5, .height = 20, .width = 20};
  EXPECT_EQ(crop, resize(testing::make_image(20, 30), middle, 10, 10));
}

TEST(Crops, RefuseOptionsThatMakeNoSense) {
  EXPECT_THROW((RandomResizedCrop{.height = 0}.check()), InvalidArgument);
  EXPECT_THROW((RandomResizedCrop{.min_area = 0}.check()), InvalidArgument);
  EXPECT_THROW((RandomResizedCrop{.max_area = 1.5}.check()), InvalidArgument);
  EXPECT_THROW((RandomResizedCrop{.min_ratio = 2}.check()), InvalidArgument);
  EXPECT_THROW((RandomResizedCrop{.mirror = -1}.check()), InvalidArgument);
  EXPECT_THROW((CenterCrop{.resize = 200}.check()), InvalidArgument);
}

}  // namespace
}  // namespace muster
