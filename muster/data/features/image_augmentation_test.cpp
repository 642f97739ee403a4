#include "muster/data/features/image_augmentation.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr CropOptions kSeeds{.image = {32, 32}, .crop = {32, 32}, .padding = 4, .mirror = true};
constexpr CropOptions kSmall{.image = {32, 32}, .crop = {24, 24}, .mirror = true};
constexpr CropOptions kOdd{.image = {5, 7}, .crop = {4, 6}, .padding = 2, .mirror = true};

std::vector<std::uint8_t> random_planes(const CropOptions& options, std::int64_t channels,
                                        Random& random) {
  std::vector<std::uint8_t> planes(static_cast<std::size_t>(options.image.pixels() * channels));
  // Never zero, so that what was padded can be told from what was copied.
  for (auto& value : planes) value = static_cast<std::uint8_t>(1 + random.below(255));
  return planes;
}

// As the words say it: pad, cut, exchange left and right, one pixel at a time.
std::vector<std::uint8_t> slowly(const std::vector<std::uint8_t>& planes, std::int64_t channels,
                                 const CropOptions& options, const Crop& crop) {
  const auto padded_width = options.image.width + 2 * options.padding;
  const auto padded_height = options.image.height + 2 * options.padding;
  std::vector<std::vector<std::uint8_t>> padded(
      static_cast<std::size_t>(channels),
      std::vector<std::uint8_t>(static_cast<std::size_t>(padded_width * padded_height), 0));
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t y = 0; y < options.image.height; ++y) {
      for (std::int64_t x = 0; x < options.image.width; ++x) {
        padded[static_cast<std::size_t>(c)][static_cast<std::size_t>(
            (y + options.padding) * padded_width + x + options.padding)] =
            planes[static_cast<std::size_t>((c * options.image.height + y) * options.image.width +
                                            x)];
      }
    }
  }
  std::vector<std::uint8_t> out;
  for (std::int64_t y = 0; y < options.crop.height; ++y) {
    for (std::int64_t x = 0; x < options.crop.width; ++x) {
      const std::int64_t column = crop.mirrored ? options.crop.width - 1 - x : x;
      for (std::int64_t c = 0; c < channels; ++c) {
        out.push_back(padded[static_cast<std::size_t>(c)][static_cast<std::size_t>(
            (y + crop.top + options.padding) * padded_width + column + crop.left +
            options.padding)]);
      }
    }
  }
  return out;
}

class Crops : public ::testing::TestWithParam<std::tuple<CropOptions, std::int64_t>> {
 protected:
  const CropOptions options_ = std::get<0>(GetParam());
  const std::int64_t channels_ = std::get<1>(GetParam());
  std::vector<std::uint8_t> crop_of(const std::vector<std::uint8_t>& planes,
                                    const Crop& crop) const {
    std::vector<std::uint8_t> out(static_cast<std::size_t>(options_.crop.pixels() * channels_), 77);
    crop_planes(planes, options_, crop, out);
    return out;
  }
};

TEST_P(Crops, AreWhatPaddingCuttingAndMirroringGive) {
  Random random(11);
  for (int i = 0; i < 200; ++i) {
    const auto planes = random_planes(options_, channels_, random);
    const Crop crop = i == 0 ? central_crop(options_) : random_crop(options_, random);
    ASSERT_EQ(crop_of(planes, crop), slowly(planes, channels_, options_, crop))
        << crop.top << " " << crop.left << " " << crop.mirrored;
  }
}

TEST_P(Crops, OfABatchOfTensorsAreThoseOfItsImages) {
  Random random(12);
  std::vector<Crop> crops;
  std::vector<at::Tensor> images;
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 9; ++i) {
    auto planes = random_planes(options_, channels_, random);
    crops.push_back(random_crop(options_, random));
    auto pixels = crop_of(planes, crops.back());
    images.push_back(torch::from_blob(planes.data(),
                                      {channels_, options_.image.height, options_.image.width},
                                      torch::kByte)
                         .permute({1, 2, 0})
                         .clone());
    expected.push_back(torch::from_blob(pixels.data(),
                                        {options_.crop.height, options_.crop.width, channels_},
                                        torch::kByte)
                           .clone());
  }
  const auto cut = crop_images(torch::stack(images), crops_tensor(crops), options_);
  EXPECT_EQ(cut.scalar_type(), torch::kByte);
  EXPECT_TRUE(at::equal(cut, torch::stack(expected)));
}

INSTANTIATE_TEST_SUITE_P(SizesAndChannels, Crops,
                         ::testing::Combine(::testing::Values(kSeeds, kSmall, kOdd),
                                            ::testing::Values(1, 3, 4)));

TEST(RandomCrop, HasEveryPlaceOftenAndMirrorsHalfOfTheTime) {
  Random random(13);
  std::set<std::pair<std::int64_t, std::int64_t>> places;
  int mirrored = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const Crop crop = random_crop(kSeeds, random);
    EXPECT_THAT(crop.top, ::testing::AllOf(::testing::Ge(-4), ::testing::Le(4)));
    EXPECT_THAT(crop.left, ::testing::AllOf(::testing::Ge(-4), ::testing::Le(4)));
    places.emplace(crop.top, crop.left);
    mirrored += crop.mirrored ? 1 : 0;
  }
  EXPECT_EQ(places.size(), 81U);
  EXPECT_NEAR(mirrored, kDraws / 2, 4 * std::sqrt(kDraws / 4.0));
}

TEST(RandomCrop, NeverMirrorsWhereItIsNotAskedTo) {
  Random random(14);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(random_crop({.padding = 4, .mirror = false}, random).mirrored);
  }
}

TEST(CentralCrop, LeavesAsMuchOnBothSides) {
  EXPECT_EQ(central_crop(kSmall), (Crop{4, 4, false}));
  EXPECT_EQ(central_crop(kSeeds), (Crop{0, 0, false}));
  EXPECT_EQ(central_crop({.image = {32, 32}, .crop = {40, 40}, .padding = 4}),
            (Crop{-4, -4, false}));
}

TEST(CropOptions, RefusesCropsThatDoNotFit) {
  EXPECT_NO_THROW(kSeeds.check());
  EXPECT_THROW((CropOptions{.crop = {33, 32}}).check(), InvalidArgument);
  EXPECT_THROW((CropOptions{.crop = {0, 32}}).check(), InvalidArgument);
  EXPECT_THROW((CropOptions{.padding = -1}).check(), InvalidArgument);
}

TEST(CropImages, RefusesCropsOfOtherImages) {
  const auto images = torch::zeros({2, 32, 32, 3}, torch::kByte);
  EXPECT_THROW(crop_images(images, torch::zeros({3, 3}, torch::kLong), kSeeds), InvalidArgument);
  EXPECT_THROW(crop_images(images.slice(1, 0, 16), torch::zeros({2, 3}, torch::kLong), kSeeds),
               InvalidArgument);
}

std::vector<float> random_floats(std::size_t count, Random& random) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.below(256));
  return values;
}

TEST(Brightness, AddsToEveryValue) {
  Random random(15);
  const auto before = random_floats(24, random);
  auto after = before;
  adjust_brightness(after, -12.5F);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i], before[i] - 12.5F);
}

TEST(Contrast, ScalesDistancesFromTheMeanOfEachChannel) {
  Random random(16);
  constexpr std::size_t kChannels = 3;
  constexpr std::size_t kPixels = 50;
  const auto before = random_floats(kPixels * kChannels, random);
  auto after = before;
  adjust_contrast(after, kChannels, 1.7F);
  for (std::size_t c = 0; c < kChannels; ++c) {
    double mean = 0;
    for (std::size_t i = 0; i < kPixels; ++i) mean += before[i * kChannels + c];
    mean /= kPixels;
    for (std::size_t i = 0; i < kPixels; ++i) {
      const double wanted = (before[i * kChannels + c] - mean) * 1.7 + mean;
      EXPECT_NEAR(after[i * kChannels + c], wanted, 1e-3);
    }
  }
}

TEST(Whiten, GivesEachImageMean0AndVariance1) {
  Random random(17);
  constexpr std::size_t kValues = 6 * 5 * 3;
  auto values = random_floats(2 * kValues, random);
  const auto white = whiten(torch::from_blob(values.data(), {2, 6, 5, 3}).clone());
  for (std::size_t image = 0; image < 2; ++image) {
    const float* first = values.data() + image * kValues;
    double mean = 0;
    for (std::size_t i = 0; i < kValues; ++i) mean += static_cast<double>(first[i]) / kValues;
    double variance = 0;
    for (std::size_t i = 0; i < kValues; ++i) {
      variance += (first[i] - mean) * (first[i] - mean) / kValues;
    }
    const auto flat = white[static_cast<std::int64_t>(image)].contiguous();
    for (std::size_t i = 0; i < kValues; ++i) {
      EXPECT_NEAR(flat.data_ptr<float>()[i], (first[i] - mean) / std::sqrt(variance), 1e-4);
    }
  }
}

TEST(Whiten, LeavesImagesOfOneColourAtZeroAndTakesBytes) {
  const auto white = whiten(torch::full({1, 4, 4, 3}, 200, torch::kByte));
  EXPECT_EQ(white.scalar_type(), torch::kFloat);
  EXPECT_EQ(white.abs().max().item<float>(), 0);
  EXPECT_THROW(whiten(torch::zeros({4, 4, 3})), InvalidArgument);
}

}  // namespace
}  // namespace muster
