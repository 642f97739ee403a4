#include "muster/orchestration/tuning/searcher.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/orchestration/tuning/searchers_internal.h"

namespace muster::tuning {
namespace {

// Parts of a searcher's seed.
constexpr std::uint64_t kRandomPart = 1;
constexpr std::uint64_t kHaltonPart = 2;

std::vector<std::uint64_t> first_primes(std::size_t count) {
  std::vector<std::uint64_t> primes;
  for (std::uint64_t number = 2; primes.size() < count; ++number) {
    const bool is_prime = std::none_of(primes.begin(), primes.end(),
                                       [&](std::uint64_t prime) { return number % prime == 0; });
    if (is_prime) primes.push_back(number);
  }
  return primes;
}

// All digits that a double can tell apart are permuted, those behind the last digit of the number
// too: the point 0 is as random as any other.
double scrambled_radical_inverse(std::uint64_t number, std::uint64_t base, std::uint64_t key) {
  double inverse = 0;
  double scale = 1;
  for (std::uint64_t place = 0; scale > std::numeric_limits<double>::epsilon() / 2; ++place) {
    scale /= static_cast<double>(base);
    const Permutation permutation(base, derive_key(key, base, place));
    inverse += static_cast<double>(permutation(number % base)) * scale;
    number /= base;
  }
  return std::min(inverse, std::nextafter(1.0, 0.0));
}

class RandomSearcher : public Searcher {
 public:
  RandomSearcher(SearchSpace space, std::uint64_t seed) : space_(std::move(space)), seed_(seed) {}

  std::vector<Point> suggest(std::size_t count,
                             std::span<const Observation> history) const override {
    return one_by_one(count, history, [&](std::span<const Observation> known) {
      return space_.from_uniform(random_point(space_.size(), known.size(), seed_));
    });
  }

 private:
  const SearchSpace space_;
  const std::uint64_t seed_;
};

class QuasiRandomSearcher : public Searcher {
 public:
  QuasiRandomSearcher(SearchSpace space, std::uint64_t seed)
      : space_(std::move(space)), seed_(seed) {}

  std::vector<Point> suggest(std::size_t count,
                             std::span<const Observation> history) const override {
    return one_by_one(count, history, [&](std::span<const Observation> known) {
      return space_.from_uniform(halton_point(space_.size(), known.size(), seed_));
    });
  }

 private:
  const SearchSpace space_;
  const std::uint64_t seed_;
};

// Goes through the values as through the digits of a number, the last parameter fastest. The
// numbers of trials count the points of the grid in which no inactive child has another value than
// its first.
class GridSearcher : public Searcher {
 public:
  explicit GridSearcher(SearchSpace space) : space_(std::move(space)) {}

  std::vector<Point> suggest(std::size_t count,
                             std::span<const Observation> history) const override {
    std::vector<Point> points;
    std::vector<std::uint64_t> digits(space_.size(), 0);
    bool is_left = true;
    for (std::size_t number = 0; is_left && points.size() < count; ++number) {
      if (number >= history.size()) points.push_back(point_at(digits));
      is_left = advance(digits);
    }
    return points;
  }

 private:
  Point point_at(const std::vector<std::uint64_t>& digits) const {
    Point point(space_.size());
    for (std::size_t i = 0; i < point.size(); ++i) {
      point[i] = space_.coordinate_of_choice(i, digits[i]);
    }
    return space_.snap(std::move(point));
  }

  bool advance(std::vector<std::uint64_t>& digits) const {
    const Point now = point_at(digits);
    for (std::size_t i = digits.size(); i-- > 0;) {
      if (!std::isnan(now[i]) && digits[i] + 1 < space_.choices(i)) {
        ++digits[i];
        return true;
      }
      digits[i] = 0;
    }
    return false;
  }

  const SearchSpace space_;
};

}  // namespace

Point halton_point(std::size_t dimensions, std::uint64_t number, std::uint64_t seed) {
  const auto primes = first_primes(dimensions);
  Point point(dimensions);
  for (std::size_t i = 0; i < dimensions; ++i) {
    point[i] = scrambled_radical_inverse(number, primes[i], derive_key(seed, kHaltonPart));
  }
  return point;
}

Point random_point(std::size_t dimensions, std::uint64_t number, std::uint64_t seed) {
  Random random(seed, kRandomPart, number);
  Point point(dimensions);
  for (double& coordinate : point) coordinate = random.uniform();
  return point;
}

std::unique_ptr<Searcher> make_searcher(Algorithm algorithm, SearchSpace space,
                                        std::uint64_t seed) {
  switch (algorithm) {
    case Algorithm::kBayesian:
      return make_bayesian_searcher(std::move(space), seed);
    case Algorithm::kGrid:
      return std::make_unique<GridSearcher>(std::move(space));
    case Algorithm::kRandom:
      return std::make_unique<RandomSearcher>(std::move(space), seed);
    case Algorithm::kQuasiRandom:
    case Algorithm::kPopulation:  // The first round; what follows is inherited.
      return std::make_unique<QuasiRandomSearcher>(std::move(space), seed);
    case Algorithm::kTpe:
      return make_tpe_searcher(std::move(space), seed);
    case Algorithm::kCmaEs:
      return make_cma_es_searcher(std::move(space), seed);
  }
  throw Internal("an algorithm that nobody knows: {}", static_cast<int>(algorithm));
}

}  // namespace muster::tuning
