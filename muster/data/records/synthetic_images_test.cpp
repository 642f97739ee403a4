#include "muster/data/records/synthetic_images.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "muster/base/error.h"

namespace muster {
namespace {

using MakeImages = SyntheticImages (*)(const SyntheticImageOptions&);

/// FNV-1a: enough to tell that bytes have changed.
std::uint64_t hash(std::string_view bytes) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char byte : bytes) value = (value ^ static_cast<std::uint8_t>(byte)) * 0x100000001b3;
  return value;
}

/// The accuracy of the nearest mean picture: a model that is far from the best.
double nearest_mean_accuracy(MakeImages make) {
  const auto train = make({.count = 1000, .seed = 1});
  std::array<std::vector<double>, 10> means;
  std::array<double, 10> counts{};
  for (auto& mean : means) mean.resize(train.image_bytes);
  for (std::size_t i = 0; i < train.size(); ++i) {
    ++counts[train.labels[i]];
    for (std::size_t p = 0; p < train.image_bytes; ++p) {
      means[train.labels[i]][p] += static_cast<std::uint8_t>(train.image(i)[p]);
    }
  }
  const auto test = make({.count = 300, .seed = 2});
  std::size_t right = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    double best = std::numeric_limits<double>::max();
    std::size_t answer = 0;
    for (std::size_t c = 0; c < means.size(); ++c) {
      double distance = 0;
      for (std::size_t p = 0; p < test.image_bytes; ++p) {
        const double d = static_cast<std::uint8_t>(test.image(i)[p]) - means[c][p] / counts[c];
        distance += d * d;
      }
      if (distance < best) {
        best = distance;
        answer = c;
      }
    }
    right += answer == test.labels[i] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

TEST(SyntheticImages, HaveTheLayoutOfTheRealOnes) {
  const auto cifar10 = make_synthetic_cifar10({.count = 7, .seed = 1});
  EXPECT_EQ(cifar10.pixels.size(), 7 * kCifar10ImageBytes);
  const auto mnist = make_synthetic_mnist({.count = 7, .seed = 1});
  EXPECT_EQ(mnist.pixels.size(), 7 * kMnistImageBytes);
  EXPECT_EQ(mnist.size(), 7U);
}

TEST(SyntheticImages, AreTheSameBytesForASeedOnEveryMachine) {
  EXPECT_EQ(hash(make_synthetic_cifar10({.count = 20, .seed = 1}).pixels), 15851841852804853013U);
  EXPECT_EQ(hash(make_synthetic_mnist({.count = 20, .seed = 1}).pixels), 14292391550399838882U);
}

TEST(SyntheticImages, DoNotDependOnHowManyThereAre) {
  const auto few = make_synthetic_mnist({.count = 3, .seed = 4});
  const auto many = make_synthetic_mnist({.count = 5, .seed = 4});
  EXPECT_EQ(few.pixels, many.pixels.substr(0, few.pixels.size()));
  EXPECT_NE(few.pixels, make_synthetic_mnist({.count = 3, .seed = 5}).pixels);
}

TEST(SyntheticImages, TellTheShareOfRightLabels) {
  const auto noisy = make_synthetic_mnist({.count = 2000, .seed = 1, .label_noise = 0.1});
  EXPECT_NEAR(noisy.best_accuracy(), 0.9, 0.03);
  EXPECT_EQ(make_synthetic_mnist({.count = 50, .label_noise = 0}).best_accuracy(), 1);
  EXPECT_THROW(make_synthetic_mnist({.count = 1, .label_noise = 1.5}), InvalidArgument);
}

TEST(SyntheticImages, CanBeLearntButNotByAMeanAlone) {
  for (const MakeImages make : {&make_synthetic_cifar10, &make_synthetic_mnist}) {
    const double accuracy = nearest_mean_accuracy(make);
    EXPECT_GT(accuracy, 0.3);
    EXPECT_LT(accuracy, 0.97);
  }
}

}  // namespace
}  // namespace muster
