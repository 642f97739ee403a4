#include "muster/data/images/resize.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/images/test_images_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

Image grey_row(std::vector<std::uint8_t> pixels) {
  const auto width = static_cast<std::int64_t>(pixels.size());
  return {.height = 1, .width = width, .channels = 1, .pixels = std::move(pixels)};
}

// Weights as the words of the filter say, pixel by pixel in doubles.
double filter_weight(ResizeFilter filter, double x) {
  const double far = std::abs(x);
  if (filter == ResizeFilter::kBox) return x > -0.5 && x <= 0.5 ? 1 : 0;
  if (filter == ResizeFilter::kBilinear) return far < 1 ? 1 - far : 0;
  if (far < 1) return 1.5 * far * far * far - 2.5 * far * far + 1;
  if (far < 2) return -0.5 * far * far * far + 2.5 * far * far - 4 * far + 2;
  return 0;
}

struct Weighted {
  std::int64_t place = 0;
  double weight = 0;
};

std::vector<Weighted> weights_of(std::int64_t size, double begin, double length, std::int64_t i,
                                 std::int64_t outputs, ResizeFilter filter) {
  const double scale = length / static_cast<double>(outputs);
  const double widened = std::max(1.0, scale);
  const double center = begin + (static_cast<double>(i) + 0.5) * scale;
  std::vector<Weighted> all;
  double sum = 0;
  for (std::int64_t place = 0; place < size; ++place) {
    const auto at = static_cast<double>(place);
    if (at + 1 <= begin || at >= begin + length) continue;
    const double weight = filter_weight(filter, (at + 0.5 - center) / widened);
    if (weight != 0) all.push_back({place, weight});
    sum += weight;
  }
  for (Weighted& one : all) one.weight /= sum;
  return all;
}

// The largest distance of a picture from this, before it was rounded.
double distance_from_slow(const Image& image, const ImageBox& box, const Image& resized,
                          ResizeFilter filter) {
  double largest = 0;
  for (std::int64_t y = 0; y < resized.height; ++y) {
    const auto rows = weights_of(image.height, box.top, box.height, y, resized.height, filter);
    for (std::int64_t x = 0; x < resized.width; ++x) {
      const auto columns = weights_of(image.width, box.left, box.width, x, resized.width, filter);
      for (std::int64_t c = 0; c < image.channels; ++c) {
        double sum = 0;
        for (const Weighted& row : rows) {
          for (const Weighted& column : columns) {
            sum += row.weight * column.weight *
                   image.row(row.place)[column.place * image.channels + c];
          }
        }
        const double wanted = std::clamp(sum, 0.0, 255.0);
        largest = std::max(largest, std::abs(wanted - resized.row(y)[x * image.channels + c]));
      }
    }
  }
  return largest;
}

TEST(Resize, WeighsEveryPixelWhereAPictureBecomesSmaller) {
  // Half as many: weights 3, 3 and 1 of 7.
  EXPECT_THAT(resize(grey_row({0, 70, 140, 210}), 1, 2).pixels, ElementsAre(50, 160));
  EXPECT_THAT(resize(grey_row({0, 70, 140, 210}), 1, 2, ResizeFilter::kBox).pixels,
              ElementsAre(35, 175));
}

TEST(Resize, DrawsALineBetweenPixelsWhereItBecomesLarger) {
  EXPECT_THAT(resize(grey_row({0, 100}), 1, 4).pixels, ElementsAre(0, 25, 75, 100));
}

TEST(Resize, LeavesAPartOfItsOwnSizeAsItIs) {
  const Image image = testing::make_image(20, 30);
  const Image part = resize(image, {.top = 3, .left = 5, .height = 11, .width = 17}, 11, 17);
  for (std::int64_t y = 0; y < 11; ++y) {
    for (std::int64_t x = 0; x < std::int64_t{17} * 3; ++x) {
      ASSERT_EQ(part.row(y)[x], image.row(y + 3)[x + 15]) << y << " " << x;
    }
  }
}

TEST(Resize, IsTheSumThatTheFilterSays) {
  const std::vector<ImageBox> boxes = {{0, 0, 37, 53}, {4, 9, 20, 31}, {2.25, 3.5, 30.5, 40.125}};
  // Odd, so that no edge of the box filter falls on the middle of a pixel.
  const std::vector<std::pair<std::int64_t, std::int64_t>> sizes = {{9, 13}, {37, 21}, {51, 61}};
  for (const std::int64_t channels : {1, 3}) {
    const Image image = testing::make_image(37, 53, channels);
    for (const ResizeFilter filter :
         {ResizeFilter::kBox, ResizeFilter::kBilinear, ResizeFilter::kBicubic}) {
      for (const ImageBox& box : boxes) {
        for (const auto& [height, width] : sizes) {
          const Image resized = resize(image, box, height, width, filter);
          EXPECT_LE(distance_from_slow(image, box, resized, filter), 0.501)
              << channels << " " << static_cast<int>(filter) << " " << box.top << " " << height;
        }
      }
    }
  }
}

TEST(Resize, TakesNothingFromOutsideOfTheBox) {
  Image image = grey_row({255, 10, 10, 10, 255});
  const ImageBox box{.left = 1, .height = 1, .width = 3};
  EXPECT_THAT(resize(image, box, 1, 2, ResizeFilter::kBicubic).pixels, ElementsAre(10, 10));
  EXPECT_THAT(resize(image, box, 1, 6).pixels, ElementsAre(10, 10, 10, 10, 10, 10));
}

TEST(Resize, RefusesSizesAndBoxesThatDoNotFit) {
  const Image image = testing::make_image(4, 5);
  EXPECT_THROW(resize(image, 0, 3), InvalidArgument);
  EXPECT_THROW(resize(image, {.height = 5, .width = 5}, 2, 2), InvalidArgument);
  EXPECT_THROW(resize(image, {.top = -1, .height = 2, .width = 2}, 2, 2), InvalidArgument);
  EXPECT_THROW(resize(image, {.height = 0, .width = 2}, 2, 2), InvalidArgument);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(resize(image, {.height = nan, .width = 2}, 2, 2), InvalidArgument);
  EXPECT_THROW(resize({.height = 4, .width = 5, .channels = 3, .pixels = {1, 2}}, 2, 2),
               InvalidArgument);
}

}  // namespace
}  // namespace muster
