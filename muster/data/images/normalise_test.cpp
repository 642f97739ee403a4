#include "muster/data/images/normalise.h"

#include <gmock/gmock.h>

#include <vector>

#include "muster/base/error.h"
#include "muster/data/images/test_images_internal.h"

namespace muster {
namespace {

TEST(Normalise, MakesPlanesOfMeanAndDeviation) {
  const Image image{.height = 1, .width = 2, .pixels = {0, 51, 102, 255, 204, 153}};
  std::vector<float> out(6);
  normalise(image, {.mean = {0.5F, 0.2F, 0}, .deviation = {0.5F, 0.1F, 2}}, out);
  EXPECT_THAT(out, ::testing::Pointwise(::testing::FloatNear(1e-6F),
                                        std::vector<float>{-1, 1, 0, 6, 0.2F, 0.3F}));
}

TEST(Normalise, TakesTheFirstMeanForGreyPictures) {
  const Image image{.height = 1, .width = 2, .channels = 1, .pixels = {0, 255}};
  std::vector<float> out(2);
  normalise(image, {.mean = {0.5F, 9, 9}, .deviation = {0.25F, 9, 9}}, out);
  EXPECT_THAT(out, ::testing::ElementsAre(-2, 2));
}

TEST(Normalise, RefusesOtherSizesAndDeviations) {
  const Image image = testing::make_image(2, 2);
  std::vector<float> out(11);
  EXPECT_THROW(normalise(image, {}, out), InvalidArgument);
  out.resize(12);
  EXPECT_THROW(normalise(image, {.deviation = {1, 0, 1}}, out), InvalidArgument);
}

TEST(NormalisedBatch, HasOnePictureAfterTheOther) {
  const std::vector<LabelledImage> images = {{testing::make_image(3, 4, 3, 1), 7},
                                             {testing::make_image(3, 4, 3, 2), 5}};
  const ImageBatch batch = normalised_batch(images);
  EXPECT_EQ(batch.count, 2);
  EXPECT_EQ(batch.channels, 3);
  EXPECT_EQ(batch.height, 3);
  EXPECT_EQ(batch.width, 4);
  EXPECT_THAT(batch.labels, ::testing::ElementsAre(7, 5));
  std::vector<float> second(36);
  normalise(images[1].image, {}, second);
  EXPECT_EQ(std::vector<float>(batch.values.begin() + 36, batch.values.end()), second);
  const std::vector<LabelledImage> mixed = {{testing::make_image(3, 4), 0},
                                            {testing::make_image(4, 4), 0}};
  EXPECT_THROW(normalised_batch(mixed), InvalidArgument);
}

}  // namespace
}  // namespace muster
