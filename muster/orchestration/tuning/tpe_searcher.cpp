#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "muster/base/random.h"
#include "muster/orchestration/tuning/search_algorithms.h"
#include "muster/orchestration/tuning/searchers_internal.h"

namespace muster::tuning {
namespace {

constexpr std::uint64_t kTpePart = 21;
constexpr std::size_t kTpeFirstTrials = 10;
constexpr std::size_t kTpeCandidates = 48;
constexpr std::size_t kMostGood = 25;
constexpr double kWidth = 0.06;

using Trials = std::vector<const Observation*>;

double distribution_of(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

// A kernel per trial, over all parameters at once, and a wide one over the whole space. A number
// has a normal that is cut off at the ends of its range, a category most of its weight on the
// trial's own choice; of a child without a value nothing is known.
class KernelDensity {
 public:
  KernelDensity(const SearchSpace& space, const Trials& trials) : space_(space) {
    const auto dimensions = static_cast<double>(space.size());
    const auto count = static_cast<double>(trials.size() + 1);
    width_ = kWidth * std::pow(count, -1 / (dimensions + 4));
    category_share_ = 1 / count;
    for (const Observation* trial : trials) centres_.push_back(trial->point);
    for (const Point& centre : centres_) {
      std::vector<double> scales;
      for (std::size_t i = 0; i < centre.size(); ++i) scales.push_back(scale_of(i, centre[i]));
      scales_.push_back(std::move(scales));
    }
  }

  Point draw(Random& random) const {
    Point point(space_.size());
    const std::uint64_t kernel = random.below(centres_.size() + 1);
    for (std::size_t i = 0; i < point.size(); ++i) {
      const bool is_wide = kernel == centres_.size() || std::isnan(centres_[kernel][i]);
      point[i] = is_wide ? random.uniform() : near(i, centres_[kernel][i], random);
    }
    return space_.snap(std::move(point));
  }

  double log_density(const Point& point) const {
    double sum = 1;
    for (std::size_t kernel = 0; kernel < centres_.size(); ++kernel) {
      double density = 1;
      for (std::size_t i = 0; i < point.size(); ++i) {
        density *= density_of(i, centres_[kernel][i], scales_[kernel][i], point[i]);
      }
      sum += density;
    }
    return std::log(sum / static_cast<double>(centres_.size() + 1));
  }

 private:
  // One over what lies of a normal in 0..1.
  double scale_of(std::size_t parameter, double centre) const {
    if (std::isnan(centre) || space_.is_categorical(parameter)) return 1;
    const double inside =
        distribution_of((1 - centre) / width_) - distribution_of(-centre / width_);
    return 1 / (inside * width_ * std::sqrt(2 * std::numbers::pi));
  }

  double density_of(std::size_t parameter, double centre, double scale, double value) const {
    if (std::isnan(centre) || std::isnan(value)) return 1;
    if (space_.is_categorical(parameter)) {
      const auto choices = static_cast<double>(space_.choices(parameter));
      // Over that of the wide kernel, which is 1.
      return centre == value ? category_share_ + (1 - category_share_) * choices : category_share_;
    }
    const double z = (value - centre) / width_;
    return scale * std::exp(-0.5 * z * z);
  }

  double near(std::size_t parameter, double centre, Random& random) const {
    if (space_.is_categorical(parameter)) {
      return random.coin(category_share_) ? random.uniform() : centre;
    }
    for (;;) {
      const double value = centre + width_ * random.normal();
      if (value >= 0 && value <= 1) return value;
    }
  }

  const SearchSpace& space_;
  double width_ = 0;
  double category_share_ = 0;
  std::vector<Point> centres_;
  std::vector<std::vector<double>> scales_;
};

// Tree-structured Parzen estimators (Bergstra et al. 2011) with kernels over all parameters: of
// draws around good trials, that which is likely there and unlikely among the others.
class TpeSearcher : public Searcher {
 public:
  TpeSearcher(SearchSpace space, std::uint64_t seed) : space_(std::move(space)), seed_(seed) {}

  std::vector<Point> suggest(std::size_t count,
                             std::span<const Observation> history) const override {
    return one_by_one(count, history,
                      [&](std::span<const Observation> known) { return next(known); });
  }

 private:
  Point next(std::span<const Observation> known) const {
    Trials ranked;
    Trials bad;
    for (const Observation& trial : known) {
      (trial.outcome == Observation::Outcome::kDone ? ranked : bad).push_back(&trial);
    }
    if (ranked.size() < kTpeFirstTrials) {
      return space_.from_uniform(halton_point(space_.size(), known.size(), seed_));
    }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto* a, const auto* b) { return a->loss < b->loss; });
    const auto good_count =
        static_cast<std::ptrdiff_t>(std::min((ranked.size() + 9) / 10, kMostGood));
    const Trials good(ranked.begin(), ranked.begin() + good_count);
    bad.insert(bad.end(), ranked.begin() + good_count, ranked.end());
    const KernelDensity near(space_, good);
    const KernelDensity far(space_, bad);
    Random random(seed_, kTpePart, known.size());
    Point best;
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < kTpeCandidates; ++i) {
      Point point = near.draw(random);
      const double ratio = near.log_density(point) - far.log_density(point);
      if (best.empty() || ratio > most) {
        most = ratio;
        best = std::move(point);
      }
    }
    return best;
  }

  const SearchSpace space_;
  const std::uint64_t seed_;
};

}  // namespace

SearchAlgorithm tpe_search_algorithm() {
  return {.names = {"TPE"}, .make = [](SearchSpace space, std::uint64_t seed) {
            return std::make_unique<TpeSearcher>(std::move(space), seed);
          }};
}

}  // namespace muster::tuning
