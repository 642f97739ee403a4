#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/records/cifar10.h"

namespace muster {

inline constexpr std::size_t kMnistImageBytes = std::size_t{28} * 28;

/// Made-up pictures with labels. A few labels are wrong on purpose, so what a model can reach is
/// known.
struct SyntheticImages {
  /// Below 10.
  std::vector<std::uint8_t> labels{};
  /// Class that each picture shows, which the label gives except for the noise.
  std::vector<std::uint8_t> classes{};
  std::size_t image_bytes = 0;
  /// One image after the other.
  std::string pixels{};

  std::size_t size() const { return labels.size(); }
  std::string_view image(std::size_t i) const {
    return std::string_view(pixels).substr(i * image_bytes, image_bytes);
  }
  /// The share of right labels: the accuracy of a model that recognises every picture.
  double best_accuracy() const;
};

struct SyntheticImageOptions {
  std::size_t count = 0;
  std::uint64_t seed = 0;
  /// The share of labels that are redrawn from the other nine classes.
  double label_noise = 0.02;
};

/// Pictures of CIFAR-10's layout (3 x 32 x 32): each class has its colour gradient, stripes and
/// shape, moved, lit and overlaid with noise at random. The same options give the same bytes on
/// every machine, and picture i does not depend on how many there are.
SyntheticImages make_synthetic_cifar10(const SyntheticImageOptions& options);

/// Pictures of MNIST's layout (28 x 28, white on black): digits drawn as strokes, moved, slanted,
/// of varying thickness, with noise.
SyntheticImages make_synthetic_mnist(const SyntheticImageOptions& options);

}  // namespace muster
