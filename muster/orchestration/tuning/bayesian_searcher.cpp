#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "muster/base/random.h"
#include "muster/orchestration/tuning/gaussian_process_internal.h"
#include "muster/orchestration/tuning/minimize_internal.h"
#include "muster/orchestration/tuning/search_algorithms.h"
#include "muster/orchestration/tuning/searchers_internal.h"

namespace muster::tuning {
namespace {

// The stream of random numbers that candidates are drawn from.
constexpr std::uint64_t kCandidatePart = 11;

constexpr std::size_t kSpreadCandidates = 512;
constexpr std::size_t kNearCandidates = 96;
constexpr std::size_t kNearPoints = 3;
constexpr std::size_t kDescents = 8;
constexpr int kDescentEvaluations = 40;
constexpr double kLogRoot2Pi = 0.91893853320467274;

// Trials before the model is asked.
std::size_t first_trials(std::size_t dimensions) {
  return std::max<std::size_t>(4, dimensions + 2);
}

// Trials that end before those beside running ones are sent to the best places known, times the
// dimensions.
constexpr std::size_t kScoutingTrials = 6;
// How many deviations below its mean a trial beside running ones is hoped to end.
constexpr double kHope = 1.0;

// How much a point promises.
struct Merit {
  double value;
  // d value / d mean and d value / d deviation.
  double by_mean;
  double by_deviation;
};

// The logarithm of the expected improvement below `best`: it has a slope where the improvement
// itself is too small for a double (Ament et al. 2023).
Merit log_improvement(double mean, double deviation, double best) {
  const double z = (best - mean) / deviation;
  const double log_density = -0.5 * z * z - kLogRoot2Pi;
  // h(z) = density(z) + z * distribution(z); the improvement is deviation * h(z).
  double log_h = 0;
  double distribution_over_h = 0;
  double density_over_h = 0;
  if (z > -1) {
    const double density = std::exp(log_density);
    const double distribution = 0.5 * std::erfc(-z / std::sqrt(2.0));
    const double h = density + z * distribution;
    log_h = std::log(h);
    distribution_over_h = distribution / h;
    density_over_h = density / h;
  } else {
    // Over the density, so that nothing underflows: the distribution is Mills' ratio m.
    const double square = z * z;
    const double m = z > -20 ? 0.5 * std::erfc(-z / std::sqrt(2.0)) / std::exp(log_density)
                             : (1 - 1 / square * (1 - 3 / square)) / -z;
    const double h = z > -20 ? 1 + z * m : (1 - 3 / square * (1 - 5 / square)) / square;
    log_h = log_density + std::log(h);
    distribution_over_h = m / h;
    density_over_h = 1 / h;
  }
  return {std::log(deviation) + log_h, -distribution_over_h / deviation,
          density_over_h / deviation};
}

double median_of(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Losses for the model, and the logarithm of how much they were stretched, of all together.
struct ModelValues {
  std::vector<double> values;
  double log_stretch = 0;
};

// Mean 0, variance 1.
ModelValues standardized(std::vector<double> losses) {
  const double count = static_cast<double>(losses.size());
  const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / count;
  double squares = 0;
  for (const double loss : losses) squares += (loss - mean) * (loss - mean);
  const double spread = std::sqrt(squares / std::max(1.0, count - 1));
  const double deviation = spread > 0 ? spread : 1;
  for (double& loss : losses) loss = (loss - mean) / deviation;
  return {std::move(losses), -count * std::log(deviation)};
}

// Brings losses far worse than the median nearer to it: how bad the bad ones are may say little of
// where the good ones are.
ModelValues squashed(std::vector<double> losses) {
  const double middle = median_of(losses);
  const double width = middle - *std::min_element(losses.begin(), losses.end());
  double log_stretch = 0;
  for (double& loss : losses) {
    if (loss <= middle || width <= 0) continue;
    const double away = (loss - middle) / width;
    log_stretch -= std::log1p(away);
    loss = middle + width * std::log1p(away);
  }
  ModelValues values = standardized(std::move(losses));
  values.log_stretch += log_stretch;
  return values;
}

// The model that explains the losses better: that of the values as they are, or of squashed ones.
GaussianProcess best_model(GaussianProcess::Data data) {
  const std::vector<double> losses = std::move(data.values);
  ModelValues plain = standardized(losses);
  ModelValues near = squashed(losses);
  data.values = std::move(plain.values);
  GaussianProcess of_plain(data);
  data.values = std::move(near.values);
  GaussianProcess of_near(std::move(data));
  const bool is_plain =
      of_plain.log_posterior() + plain.log_stretch > of_near.log_posterior() + near.log_stretch;
  return is_plain ? std::move(of_plain) : std::move(of_near);
}

// One choice of points: the model of what is done, and the search for its best points.
class Choice {
 public:
  Choice(const SearchSpace& space, std::uint64_t seed, std::span<const Observation> history)
      : space_(space),
        seed_(seed),
        known_(history.begin(), history.end()),
        model_(best_model(data())) {
    best_ = std::numeric_limits<double>::infinity();
    for (const std::size_t place : ranked_) {
      best_ = std::min(best_, model_.predict(model_point(known_[place].point), false).mean);
    }
    for (const Observation& trial : known_) {
      if (trial.outcome == Observation::Outcome::kRunning) believe(trial.point);
    }
  }

  Point next() {
    Point point = search(known_.size());
    believe(point);
    known_.push_back({.point = point});
    return point;
  }

 private:
  // A trial that runs is taken to end as it is expected to; the next ones are to do better than it
  // may hope to, or all of them would be at the same place.
  void believe(const Point& point) {
    const Point place = model_point(point);
    const auto there = model_.predict(place, false);
    best_ = std::min(best_, there.mean - kHope * there.deviation);
    model_.believe(place);
    is_beside_others_ = true;
  }

  // Expected improvement leads one trial at a time. Beside others it spreads them over the space,
  // which is right while little is known; then the lower confidence bound, which has no best value
  // to beat, sets them around the expected minimum, and the model learns its shape at once.
  Merit merit(double mean, double deviation) const {
    const bool is_scouting = ranked_.size() < kScoutingTrials * space_.size();
    if (!is_beside_others_ || is_scouting) return log_improvement(mean, deviation, best_);
    return {kHope * deviation - mean, -1, kHope};
  }

  // Children that have no value are in the middle.
  static Point model_point(Point point) {
    for (double& coordinate : point) {
      if (std::isnan(coordinate)) coordinate = 0.5;
    }
    return point;
  }

  // A failed trial is as bad as the worst one.
  GaussianProcess::Data data() {
    GaussianProcess::Data data;
    for (std::size_t i = 0; i < space_.size(); ++i) {
      data.is_categorical.push_back(space_.is_categorical(i));
    }
    double worst = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (known_[i].outcome != Observation::Outcome::kDone) continue;
      worst = std::max(worst, known_[i].loss);
      ranked_.push_back(i);
    }
    for (const Observation& trial : known_) {
      if (trial.outcome == Observation::Outcome::kRunning) continue;
      const Point point = model_point(trial.point);
      data.points.insert(data.points.end(), point.begin(), point.end());
      data.values.push_back(trial.outcome == Observation::Outcome::kDone ? trial.loss : worst);
    }
    std::stable_sort(ranked_.begin(), ranked_.end(),
                     [&](std::size_t a, std::size_t b) { return known_[a].loss < known_[b].loss; });
    return data;
  }

  double score(const Point& point) const {
    const auto prediction = model_.predict(model_point(point), false);
    return merit(prediction.mean, prediction.deviation).value;
  }

  // Points all over the cube, and some around the best ones.
  std::vector<Point> candidates(std::size_t number) const {
    Random random(seed_, kCandidatePart, number);
    std::vector<Point> points;
    points.reserve(kSpreadCandidates + kNearCandidates);
    const std::uint64_t scramble = random.next_u64();
    for (std::size_t i = 0; i < kSpreadCandidates; ++i) {
      points.push_back(space_.from_uniform(random_point(space_.size(), i, scramble)));
    }
    for (std::size_t i = 0; i < kNearCandidates && !ranked_.empty(); ++i) {
      points.push_back(
          near(known_[ranked_[i % std::min(kNearPoints, ranked_.size())]].point, random));
    }
    return points;
  }

  Point near(Point point, Random& random) const {
    const double width = 0.3 * std::pow(0.03, random.uniform());
    for (std::size_t i = 0; i < point.size(); ++i) {
      if (std::isnan(point[i])) continue;
      if (space_.is_categorical(i)) {
        if (random.coin(0.2)) point[i] = random.uniform();
      } else {
        point[i] = std::clamp(point[i] + width * random.normal(), 0.0, 1.0);
      }
    }
    return space_.snap(std::move(point));
  }

  Point search(std::size_t number) const {
    std::vector<Point> points = candidates(number);
    std::vector<double> flat;
    for (const Point& point : points) {
      const Point place = model_point(point);
      flat.insert(flat.end(), place.begin(), place.end());
    }
    std::vector<double> means;
    std::vector<double> deviations;
    model_.predict(flat, means, deviations);
    std::vector<std::pair<double, Point>> scored;
    scored.reserve(points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      scored.emplace_back(merit(means[i], deviations[i]).value, std::move(points[i]));
    }
    const auto better = [](const auto& a, const auto& b) { return a.first > b.first; };
    std::stable_sort(scored.begin(), scored.end(), better);
    const std::size_t descents = std::min(kDescents, scored.size());
    for (std::size_t i = 0; i < descents; ++i) {
      Point point = improved(scored[i].second);
      const double value = score(point);
      if (value > scored[i].first) scored[i] = {value, std::move(point)};
    }
    std::stable_sort(scored.begin(), scored.end(), better);
    // The best that no trial has; in a space where all have been tried, the best.
    for (const auto& [value, point] : scored) {
      if (!is_known(point)) return point;
    }
    return scored.front().second;
  }

  // Goes up from a point: along the slope as if all were continuous, then over neighbouring values.
  Point improved(const Point& start) const {
    std::vector<double> low(start.size(), 0.0);
    std::vector<double> high(start.size(), 1.0);
    Point from = model_point(start);
    for (std::size_t i = 0; i < start.size(); ++i) {
      if (space_.is_categorical(i) || std::isnan(start[i])) low[i] = high[i] = from[i];
    }
    const Differentiable negated = [&](const std::vector<double>& place,
                                       std::vector<double>& gradient) {
      const auto prediction = model_.predict(place, true);
      const Merit here = merit(prediction.mean, prediction.deviation);
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = -(here.by_mean * prediction.mean_gradient[i] +
                        here.by_deviation * prediction.deviation_gradient[i]);
      }
      return -here.value;
    };
    Point point = minimize(negated, std::move(from), low, high, kDescentEvaluations).place;
    for (std::size_t i = 0; i < start.size(); ++i) {
      if (std::isnan(start[i])) point[i] = start[i];
    }
    return over_neighbours(space_.snap(std::move(point)));
  }

  Point over_neighbours(Point point) const {
    bool is_mixed = false;
    for (std::size_t i = 0; i < point.size(); ++i) is_mixed |= !space_.is_continuous(i);
    if (!is_mixed) return point;
    double value = score(point);
    for (std::size_t i = 0; i < point.size(); ++i) {
      if (space_.is_continuous(i) || std::isnan(point[i])) continue;
      for (const std::uint64_t choice : neighbours(i, space_.nearest_choice(i, point[i]))) {
        Point other = point;
        other[i] = space_.coordinate_of_choice(i, choice);
        other = space_.snap(std::move(other));
        const double other_value = score(other);
        if (other_value > value) {
          value = other_value;
          point = std::move(other);
        }
      }
    }
    return point;
  }

  std::vector<std::uint64_t> neighbours(std::size_t parameter, std::uint64_t choice) const {
    constexpr std::uint64_t kMostTried = 16;
    const std::uint64_t count = space_.choices(parameter);
    std::vector<std::uint64_t> all;
    if (space_.is_categorical(parameter)) {
      for (std::uint64_t i = 1; i < std::min(count, kMostTried); ++i) {
        all.push_back((choice + i) % count);
      }
    } else {
      if (choice > 0) all.push_back(choice - 1);
      if (choice + 1 < count) all.push_back(choice + 1);
    }
    return all;
  }

  bool is_known(const Point& point) const {
    return std::any_of(known_.begin(), known_.end(), [&](const Observation& trial) {
      return model_point(trial.point) == model_point(point);
    });
  }

  const SearchSpace& space_;
  const std::uint64_t seed_;
  std::vector<Observation> known_;
  /// Places of those that are done, best first.
  std::vector<std::size_t> ranked_;
  GaussianProcess model_;
  double best_ = 0;
  bool is_beside_others_ = false;
};

class BayesianSearcher : public Searcher {
 public:
  BayesianSearcher(SearchSpace space, std::uint64_t seed) : space_(std::move(space)), seed_(seed) {}

  std::vector<Point> suggest(std::size_t count,
                             std::span<const Observation> history) const override {
    std::vector<Observation> known(history.begin(), history.end());
    std::vector<Point> points;
    const auto done = std::count_if(known.begin(), known.end(), [](const Observation& trial) {
      return trial.outcome == Observation::Outcome::kDone;
    });
    while (points.size() < count && (known.size() < first_trials(space_.size()) || done < 2)) {
      points.push_back(space_.from_uniform(halton_point(space_.size(), known.size(), seed_)));
      known.push_back({.point = points.back()});
    }
    if (points.size() == count) return points;
    Choice choice(space_, seed_, known);
    while (points.size() < count) points.push_back(choice.next());
    return points;
  }

 private:
  const SearchSpace space_;
  const std::uint64_t seed_;
};

}  // namespace

SearchAlgorithm bayesian_search_algorithm() {
  return {.names = {kDefaultAlgorithm, "GAUSSIAN_PROCESS_BANDIT"},
          .make = [](SearchSpace space, std::uint64_t seed) {
            return std::make_unique<BayesianSearcher>(std::move(space), seed);
          }};
}

}  // namespace muster::tuning
