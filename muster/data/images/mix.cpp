#include "muster/data/images/mix.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

// The logarithm of a draw of the Gamma distribution, by Marsaglia and Tsang: small parameters give
// numbers that are no doubles.
double log_gamma_draw(double alpha, Random& random) {
  if (alpha < 1) {
    const double boost = std::log(1 - random.uniform()) / alpha;
    return log_gamma_draw(alpha + 1, random) + boost;
  }
  const double d = alpha - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double normal = random.normal();
    const double v = std::pow(1 + c * normal, 3);
    const double uniform = 1 - random.uniform();
    if (v > 0 && std::log(uniform) < normal * normal / 2 + d - d * v + d * std::log(v)) {
      return std::log(d) + std::log(v);
    }
  }
}

std::size_t image_values(const ImageBatch& images) {
  return static_cast<std::size_t>(images.channels * images.height * images.width);
}

// Both pictures of a pair change, so each is read before it is written.
void add_pairs(ImageBatch& images, float share) {
  const std::size_t values = image_values(images);
  const auto count = static_cast<std::size_t>(images.count);
  for (std::size_t i = 0; i < count / 2; ++i) {
    float* one = images.values.data() + i * values;
    float* other = images.values.data() + (count - 1 - i) * values;
    for (std::size_t k = 0; k < values; ++k) {
      const float first = one[k];
      const float second = other[k];
      one[k] = share * first + (1 - share) * second;
      other[k] = share * second + (1 - share) * first;
    }
  }
}

struct Rectangle {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t bottom = 0;
  std::int64_t right = 0;
};

// About a random middle; what would lie outside is cut off.
Rectangle random_rectangle(const ImageBatch& images, double share, Random& random) {
  const double side = std::sqrt(1 - share);
  const auto around = [&](std::int64_t size) {
    const double middle = random.uniform() * static_cast<double>(size);
    const double half = side * static_cast<double>(size) / 2;
    const auto from = static_cast<std::int64_t>(std::max(0.0, std::round(middle - half)));
    const auto to = std::min(size, static_cast<std::int64_t>(std::round(middle + half)));
    return std::pair{std::min(from, to), to};
  };
  const auto [top, bottom] = around(images.height);
  const auto [left, right] = around(images.width);
  return {.top = top, .left = left, .bottom = bottom, .right = right};
}

void exchange_rectangles(ImageBatch& images, const Rectangle& place) {
  const std::size_t values = image_values(images);
  const auto count = static_cast<std::size_t>(images.count);
  for (std::size_t i = 0; i < count / 2; ++i) {
    float* one = images.values.data() + i * values;
    float* other = images.values.data() + (count - 1 - i) * values;
    for (std::int64_t c = 0; c < images.channels; ++c) {
      for (std::int64_t y = place.top; y < place.bottom; ++y) {
        const std::int64_t row = (c * images.height + y) * images.width;
        std::swap_ranges(one + row + place.left, one + row + place.right, other + row + place.left);
      }
    }
  }
}

std::vector<float> targets_of(const ImageBatch& images, const MixOptions& options, double share) {
  const auto classes = static_cast<std::size_t>(options.classes);
  const auto spread = static_cast<float>(options.smoothing / static_cast<double>(options.classes));
  std::vector<float> targets(images.labels.size() * classes, spread);
  const auto rest = 1 - options.smoothing;
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    const auto own = static_cast<std::size_t>(images.labels[i]);
    const auto other = static_cast<std::size_t>(images.labels[images.labels.size() - 1 - i]);
    targets[i * classes + own] += static_cast<float>(rest * share);
    targets[i * classes + other] += static_cast<float>(rest * (1 - share));
  }
  return targets;
}

}  // namespace

void MixOptions::check() const {
  if (classes < 1) throw InvalidArgument("classes of a mixed batch must be positive: {}", classes);
  for (const double alpha : {mixup, cutmix}) {
    if (!(alpha >= 0 && std::isfinite(alpha))) {
      throw InvalidArgument("mixup and cutmix must not be negative: {}, {}", mixup, cutmix);
    }
  }
  for (const double share : {cutmix_share, smoothing}) {
    if (!(share >= 0 && share <= 1)) {
      throw InvalidArgument("cutmix_share and smoothing must be from 0 to 1: {}, {}", cutmix_share,
                            smoothing);
    }
  }
}

double beta_draw(double alpha, Random& random) {
  if (!(alpha > 0)) throw InvalidArgument("a Beta distribution has no parameter {}", alpha);
  const double one = log_gamma_draw(alpha, random);
  const double other = log_gamma_draw(alpha, random);
  return 1 / (1 + std::exp(other - one));
}

MixedBatch mix_images(ImageBatch images, const MixOptions& options, Random& random) {
  options.check();
  for (const std::int64_t label : images.labels) {
    if (label < 0 || label >= options.classes) {
      throw InvalidArgument("label {} is not one of {} classes", label, options.classes);
    }
  }
  const bool cut = options.cutmix > 0 && (options.mixup == 0 || random.coin(options.cutmix_share));
  double share = 1;
  if (cut) {
    const Rectangle place = random_rectangle(images, beta_draw(options.cutmix, random), random);
    exchange_rectangles(images, place);
    const auto area = static_cast<double>((place.bottom - place.top) * (place.right - place.left));
    share = 1 - area / std::max(1.0, static_cast<double>(images.height * images.width));
  } else if (options.mixup > 0) {
    share = beta_draw(options.mixup, random);
    add_pairs(images, static_cast<float>(share));
  }
  MixedBatch mixed{.classes = options.classes};
  mixed.targets = targets_of(images, options, share);
  mixed.images = std::move(images);
  return mixed;
}

}  // namespace muster
