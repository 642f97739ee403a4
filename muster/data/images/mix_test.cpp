#include "muster/data/images/mix.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"

namespace muster {
namespace {

// Picture i is full of i + 1.
ImageBatch numbered(std::int64_t count, std::int64_t side = 8) {
  ImageBatch batch{.count = count, .channels = 3, .height = side, .width = side};
  batch.labels.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    batch.labels.push_back(i);
    batch.values.insert(batch.values.end(), static_cast<std::size_t>(3 * side * side),
                        static_cast<float>(i + 1));
  }
  return batch;
}

double mean_of(const ImageBatch& batch, std::size_t i) {
  const auto values = static_cast<std::size_t>(batch.channels * batch.height * batch.width);
  double sum = 0;
  for (std::size_t k = 0; k < values; ++k) {
    sum += static_cast<double>(batch.values[i * values + k]);
  }
  return sum / static_cast<double>(values);
}

// A picture's mean is that of the classes by its targets, however it was mixed.
void expect_targets_match(const MixedBatch& mixed) {
  const auto classes = static_cast<std::size_t>(mixed.classes);
  for (std::size_t i = 0; i < mixed.images.labels.size(); ++i) {
    double expected = 0;
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      const auto target = static_cast<double>(mixed.targets[i * classes + c]);
      expected += target * static_cast<double>(c + 1);
      sum += target;
    }
    ASSERT_NEAR(sum, 1, 1e-6);
    ASSERT_NEAR(mean_of(mixed.images, i), expected, 1e-4) << i;
  }
}

TEST(MixImages, GivesTargetsTheSharesOfTheirPictures) {
  Random random(1);
  int changed = 0;
  for (const MixOptions& options :
       {MixOptions{.classes = 5, .mixup = 1, .cutmix = 0},
        MixOptions{.classes = 5, .mixup = 0, .cutmix = 1}, MixOptions{.classes = 5}}) {
    for (int i = 0; i < 30; ++i) {
      const MixedBatch mixed = mix_images(numbered(5), options, random);
      expect_targets_match(mixed);
      EXPECT_NEAR(mean_of(mixed.images, 2), 3, 1e-5);
      changed += mean_of(mixed.images, 0) > 1.01 ? 1 : 0;
    }
  }
  EXPECT_GT(changed, 45);
}

TEST(MixImages, PastesRectanglesAndAddsPictures) {
  Random random(2);
  const auto values_of = [&](const MixOptions& options) {
    const auto mixed = mix_images(numbered(2), options, random);
    return std::count_if(mixed.images.values.begin(), mixed.images.values.end(),
                         [](float value) { return value != 1 && value != 2; });
  };
  EXPECT_EQ(values_of({.classes = 2, .mixup = 0, .cutmix = 1}), 0);
  EXPECT_GT(values_of({.classes = 2, .mixup = 1, .cutmix = 0}), 0);
  const auto untouched = mix_images(numbered(2), {.classes = 2, .mixup = 0, .cutmix = 0}, random);
  EXPECT_EQ(untouched.images.values, numbered(2).values);
  EXPECT_THAT(untouched.targets, ::testing::ElementsAre(1, 0, 0, 1));
}

TEST(MixImages, SmoothsTargets) {
  Random random(3);
  const MixOptions options{.classes = 2, .mixup = 0, .cutmix = 0, .smoothing = 0.1};
  EXPECT_THAT(mix_images(numbered(1), options, random).targets,
              ::testing::Pointwise(::testing::FloatNear(1e-6F), std::vector<float>{0.95F, 0.05F}));
}

TEST(MixImages, RefusesLabelsAndOptionsThatMakeNoSense) {
  Random random(4);
  EXPECT_THROW(mix_images(numbered(3), {.classes = 2}, random), InvalidArgument);
  EXPECT_THROW(mix_images(numbered(1), {}, random), InvalidArgument);
  EXPECT_THROW(mix_images(numbered(1), {.classes = 1, .mixup = -1}, random), InvalidArgument);
  EXPECT_THROW(mix_images(numbered(1), {.classes = 1, .smoothing = 2}, random), InvalidArgument);
}

TEST(BetaDraw, HasTheMeanAndVarianceOfItsDistribution) {
  for (const double alpha : {0.05, 0.2, 1.0, 4.0}) {
    Random random(5);
    constexpr int kDraws = 20'000;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double draw = beta_draw(alpha, random);
      ASSERT_GE(draw, 0);
      ASSERT_LE(draw, 1);
      sum += draw;
      squares += (draw - 0.5) * (draw - 0.5);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.02) << alpha;
    EXPECT_NEAR(squares / kDraws, 1 / (4 * (2 * alpha + 1)), 0.01) << alpha;
  }
  Random random(6);
  EXPECT_THROW(beta_draw(0, random), InvalidArgument);
}

}  // namespace
}  // namespace muster
