#include "muster/orchestration/tuning/importance.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "muster/base/random.h"
#include "muster/orchestration/tuning/search_space.h"

namespace muster::tuning {
namespace {

constexpr std::uint64_t kForestPart = 41;
constexpr int kTrees = 32;
constexpr int kMostDepth = 8;
constexpr std::size_t kLeastLeaf = 2;
// More say little more, and cost much.
constexpr std::size_t kMostTrials = 1000;
// Places of a parameter at which the metric's mean over the others is taken.
constexpr int kPlaces = 16;

struct Sample {
  Point point;
  double value;
};

double mean_of(std::span<const Sample> samples) {
  double sum = 0;
  for (const Sample& sample : samples) sum += sample.value;
  return sum / static_cast<double>(samples.size());
}

double variance_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares / count;
}

class Tree {
 public:
  explicit Tree(std::vector<Sample> samples) { grow(samples, 0); }

  double predict(const Point& point) const {
    std::size_t at = 0;
    while (nodes_[at].right != 0) {
      at = point[nodes_[at].coordinate] <= nodes_[at].threshold ? at + 1 : nodes_[at].right;
    }
    return nodes_[at].value;
  }

 private:
  // A leaf where nothing is to the right; the left one comes next.
  struct Node {
    double value = 0;
    std::size_t coordinate = 0;
    double threshold = 0;
    std::size_t right = 0;
  };
  struct Split {
    double gain = 0;
    std::size_t coordinate = 0;
    std::size_t left = 0;
  };

  void grow(std::span<Sample> samples, int depth) {
    const std::size_t at = nodes_.size();
    nodes_.push_back({.value = mean_of(samples)});
    const Split split = depth < kMostDepth ? best_split(samples) : Split{};
    if (split.left == 0) return;
    sort_by(samples, split.coordinate);
    nodes_[at].coordinate = split.coordinate;
    nodes_[at].threshold = (samples[split.left - 1].point[split.coordinate] +
                            samples[split.left].point[split.coordinate]) /
                           2;
    grow(samples.first(split.left), depth + 1);
    nodes_[at].right = nodes_.size();
    grow(samples.subspan(split.left), depth + 1);
  }

  static void sort_by(std::span<Sample> samples, std::size_t coordinate) {
    std::stable_sort(samples.begin(), samples.end(), [&](const Sample& a, const Sample& b) {
      return a.point[coordinate] < b.point[coordinate];
    });
  }

  // That which takes the most from the sum of squares.
  static Split best_split(std::span<Sample> samples) {
    Split best;
    const double mean = mean_of(samples);
    for (std::size_t coordinate = 0; coordinate < samples[0].point.size(); ++coordinate) {
      sort_by(samples, coordinate);
      double sum = 0;
      for (std::size_t left = 1; left < samples.size(); ++left) {
        sum += samples[left - 1].value - mean;
        const bool is_edge = samples[left - 1].point[coordinate] < samples[left].point[coordinate];
        if (!is_edge || left < kLeastLeaf || samples.size() - left < kLeastLeaf) continue;
        const double gain = sum * sum / static_cast<double>(left) +
                            sum * sum / static_cast<double>(samples.size() - left);
        if (gain > best.gain) best = {gain, coordinate, left};
      }
    }
    return best;
  }

  std::vector<Node> nodes_;
};

// The trials that have a metric. A child without a value is in the middle.
std::vector<Sample> samples_of(const Study& study, const SearchSpace& space) {
  std::vector<Sample> samples;
  for (const Trial& trial : study.trials) {
    if (!trial.final_metric || !std::isfinite(trial.final_metric->value)) continue;
    Sample sample{space.point_of(trial.values), trial.final_metric->value};
    for (double& coordinate : sample.point) {
      if (std::isnan(coordinate)) coordinate = 0.5;
    }
    samples.push_back(std::move(sample));
    if (samples.size() == kMostTrials) break;
  }
  return samples;
}

std::vector<Sample> drawn_from(const std::vector<Sample>& samples, Random& random) {
  std::vector<Sample> drawn;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    drawn.push_back(samples[random.below(samples.size())]);
  }
  return drawn;
}

// The variance of the mean over all other parameters, as this one takes its places.
double variance_alone(const Tree& tree, const std::vector<Sample>& samples,
                      std::size_t coordinate) {
  std::vector<double> means;
  for (int place = 0; place < kPlaces; ++place) {
    double sum = 0;
    for (const Sample& sample : samples) {
      Point point = sample.point;
      point[coordinate] = (place + 0.5) / kPlaces;
      sum += tree.predict(point);
    }
    means.push_back(sum / static_cast<double>(samples.size()));
  }
  return variance_of(means);
}

double variance_of_all(const Tree& tree, const std::vector<Sample>& samples, Random& random) {
  std::vector<double> values;
  Point point(samples[0].point.size());
  for (int i = 0; i < kPlaces * kPlaces; ++i) {
    for (double& coordinate : point) coordinate = random.uniform();
    values.push_back(tree.predict(point));
  }
  return variance_of(values);
}

}  // namespace

std::vector<double> importances(const Study& study) {
  const SearchSpace space(study.spec.params);
  const std::vector<Sample> samples = samples_of(study, space);
  if (samples.size() < kLeastTrialsForImportances) return {};
  std::vector<double> shares(space.size(), 0.0);
  double trees = 0;
  for (int number = 0; number < kTrees; ++number) {
    Random random(0, kForestPart, static_cast<std::uint64_t>(number));
    const Tree tree(drawn_from(samples, random));
    const double all = variance_of_all(tree, samples, random);
    if (all <= 0) continue;
    ++trees;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      shares[i] += std::min(1.0, variance_alone(tree, samples, i) / all);
    }
  }
  if (trees == 0) return {};
  for (double& share : shares) share /= trees;
  return shares;
}

}  // namespace muster::tuning
