#include "muster/data/images/augment.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/images/test_images_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using testing::make_image;

std::vector<std::uint8_t> changed(std::vector<std::uint8_t> pixels, ImageChange change,
                                  double strength, std::int64_t channels = 1) {
  const auto width = static_cast<std::int64_t>(pixels.size()) / channels;
  Image image{.height = 1, .width = width, .channels = channels, .pixels = std::move(pixels)};
  change_image(image, change, strength);
  return image.pixels;
}

TEST(ChangeImage, MapsValues) {
  EXPECT_THAT(changed({10, 60, 110}, ImageChange::kAutoContrast, 0), ElementsAre(0, 128, 255));
  EXPECT_THAT(changed({7, 7}, ImageChange::kAutoContrast, 0), ElementsAre(7, 7));
  EXPECT_THAT(changed({1, 2, 3, 200}, ImageChange::kEqualize, 0), ElementsAre(32, 96, 159, 223));
  EXPECT_THAT(changed({7, 7}, ImageChange::kEqualize, 0), ElementsAre(7, 7));
  EXPECT_THAT(changed({99, 100, 255}, ImageChange::kSolarize, 100), ElementsAre(99, 155, 0));
  EXPECT_THAT(changed({255, 77, 15}, ImageChange::kPosterize, 4), ElementsAre(240, 64, 0));
  EXPECT_THAT(changed({10, 200}, ImageChange::kBrightness, 1.5), ElementsAre(15, 255));
  EXPECT_THAT(changed({100, 140}, ImageChange::kContrast, 0.5), ElementsAre(110, 130));
  EXPECT_THAT(changed({255, 0, 0}, ImageChange::kColour, 0, 3), ElementsAre(76, 76, 76));
  EXPECT_THAT(changed({255, 9, 0}, ImageChange::kColour, 1, 3), ElementsAre(255, 9, 0));
}

TEST(ChangeImage, SharpensAndBlursTheInsideAlone) {
  Image image{.height = 3, .width = 3, .channels = 1, .pixels = {0, 0, 0, 0, 130, 0, 0, 0, 0}};
  change_image(image, ImageChange::kSharpness, 0);
  EXPECT_THAT(image.pixels, ElementsAre(0, 0, 0, 0, 50, 0, 0, 0, 0));
}

TEST(ChangeImage, MovesPixelsAndFillsWithGrey) {
  EXPECT_THAT(changed({1, 2, 3, 4}, ImageChange::kTranslateX, 0.25), ElementsAre(128, 1, 2, 3));
  EXPECT_THAT(changed({1, 2, 3, 4}, ImageChange::kRotate, 180), ElementsAre(4, 3, 2, 1));
  Image image{.height = 2, .width = 2, .channels = 1, .pixels = {1, 2, 3, 4}};
  change_image(image, ImageChange::kTranslateY, -0.5);
  EXPECT_THAT(image.pixels, ElementsAre(3, 4, 128, 128));
  Image square{.height = 2, .width = 2, .channels = 1, .pixels = {1, 2, 3, 4}};
  change_image(square, ImageChange::kShearX, 2);
  EXPECT_THAT(square.pixels, ElementsAre(128, 1, 4, 128));
}

TEST(ChangeImage, RefusesOtherPicturesAndStrengths) {
  Image image{.height = 1, .width = 1, .channels = 2, .pixels = {1, 2}};
  EXPECT_THROW(change_image(image, ImageChange::kRotate, 1), InvalidArgument);
  Image grey{.height = 1, .width = 1, .channels = 1, .pixels = {1}};
  EXPECT_THROW(change_image(grey, ImageChange::kRotate, std::numeric_limits<double>::infinity()),
               InvalidArgument);
}

TEST(ShiftHue, TurnsTheCircleOfColours) {
  Image image{.height = 1, .width = 3, .pixels = {200, 0, 0, 10, 120, 10, 50, 50, 50}};
  shift_hue(image, 1.0 / 3);
  EXPECT_THAT(image.pixels, ElementsAre(0, 200, 0, 10, 10, 120, 50, 50, 50));
  Image same = make_image(9, 8);
  shift_hue(same, -1);
  const Image before = make_image(9, 8);
  for (std::size_t i = 0; i < same.pixels.size(); ++i) {
    ASSERT_NEAR(same.pixels[i], before.pixels[i], 1);
  }
}

TEST(JitterColours, DrawsAsManyNumbersForEveryPicture) {
  Random one(1);
  Random other(1);
  Image small = make_image(2, 2, 1);
  Image large = make_image(20, 20, 3, 5);
  const Image before = large;
  jitter_colours(small, {}, one);
  jitter_colours(large, {}, other);
  EXPECT_EQ(one.next_u64(), other.next_u64());
  EXPECT_NE(large, before);
  Image same = before;
  jitter_colours(same, {.brightness = 0, .contrast = 0, .saturation = 0, .hue = 0}, one);
  EXPECT_EQ(same, before);
  EXPECT_THROW(jitter_colours(same, {.hue = 0.6}, one), InvalidArgument);
}

TEST(RandAugment, MakesEveryChangeAndIsAFunctionOfItsNumbers) {
  const Image before = make_image(16, 16);
  std::set<std::vector<std::uint8_t>> results;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Image one = before;
    Image again = before;
    Random random(seed);
    Random same(seed);
    rand_augment(one, {.changes = 1}, random);
    rand_augment(again, {.changes = 1}, same);
    ASSERT_EQ(one, again);
    results.insert(one.pixels);
  }
  // Fourteen changes, of which nine have two signs.
  EXPECT_GE(results.size(), 18U);
  Image untouched = before;
  Random random(1);
  rand_augment(untouched, {.changes = 0}, random);
  EXPECT_EQ(untouched, before);
  EXPECT_THROW(rand_augment(untouched, {.strength = 31}, random), InvalidArgument);
}

}  // namespace
}  // namespace muster
