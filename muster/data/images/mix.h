#pragma once

#include <cstdint>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/images/normalise.h"

namespace muster {

/// How pictures of a batch are mixed with each other.
struct MixOptions {
  std::int64_t classes = 0;
  /// Parameters of the Beta distribution of shares; 0: never.
  double mixup = 0.2;
  double cutmix = 1;
  /// How often a batch is mixed by cutmix where both may be.
  double cutmix_share = 0.5;
  /// The share of a target that is spread over all classes.
  double smoothing = 0;

  /// Throws InvalidArgument, naming the field.
  void check() const;
};

/// A batch and the share of each class in each picture: float [count, classes].
struct MixedBatch {
  ImageBatch images{};
  std::int64_t classes = 0;
  std::vector<float> targets{};
};

/// Mixes picture i with picture count - 1 - i, the whole batch with the same share: mixup (Zhang et
/// al., 2017) adds weighted values, cutmix (Yun et al., 2019) pastes a rectangle. Throws
/// InvalidArgument for a label that is not below `classes`.
MixedBatch mix_images(ImageBatch images, const MixOptions& options, Random& random);

/// A draw of the Beta distribution with both parameters `alpha`. Throws InvalidArgument for one
/// that is not positive.
double beta_draw(double alpha, Random& random);

}  // namespace muster
