#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "muster/base/random.h"
#include "muster/orchestration/tuning/search_algorithms.h"
#include "muster/orchestration/tuning/searchers_internal.h"

namespace muster::tuning {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr std::uint64_t kDrawPart = 31;
constexpr double kFirstWidth = 0.12;
constexpr int kDrawTries = 100;

// The distribution that covariance matrix adaptation draws from (Hansen's tutorial, 2016), updated
// by whole generations.
class Distribution {
 public:
  explicit Distribution(Index dimensions)
      : dimensions_(dimensions),
        // Fewer than the tutorial's: a study has tens of trials, not thousands.
        population_(3 + static_cast<Index>(2 * std::log(static_cast<double>(dimensions)))),
        mean_(VectorXd::Constant(dimensions, 0.5)),
        covariance_(MatrixXd::Identity(dimensions, dimensions)),
        path_(VectorXd::Zero(dimensions)),
        width_path_(VectorXd::Zero(dimensions)) {
    const Index parents = population_ / 2;
    weights_.resize(parents);
    for (Index i = 0; i < parents; ++i) {
      weights_(i) = std::log((static_cast<double>(population_) + 1) / 2) -
                    std::log(static_cast<double>(i) + 1);
    }
    weights_ /= weights_.sum();
    const double n = static_cast<double>(dimensions);
    effective_ = 1 / weights_.squaredNorm();
    path_rate_ = (4 + effective_ / n) / (n + 4 + 2 * effective_ / n);
    width_rate_ = (effective_ + 2) / (n + effective_ + 5);
    rank_one_ = 2 / ((n + 1.3) * (n + 1.3) + effective_);
    rank_mu_ = std::min(1 - rank_one_,
                        2 * (effective_ - 2 + 1 / effective_) / ((n + 2) * (n + 2) + effective_));
    damping_ = 1 + 2 * std::max(0.0, std::sqrt((effective_ - 1) / (n + 1)) - 1) + width_rate_;
    expected_length_ = std::sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
    decompose();
  }

  std::size_t population() const { return static_cast<std::size_t>(population_); }

  // Inside the cube: draws that are not are repeated, and clamped in the end. With the sign -1, the
  // mirror image of what the same numbers give with 1.
  Point draw(Random& random, double sign) const {
    VectorXd point;
    for (int i = 0; i < kDrawTries; ++i) {
      VectorXd normal(dimensions_);
      for (double& element : normal) element = sign * random.normal();
      point = mean_ + width_ * (axes_ * normal);
      if ((point.array() >= 0).all() && (point.array() <= 1).all()) break;
    }
    point = point.array().max(0.0).min(1.0);
    return {point.data(), point.data() + point.size()};
  }

  // Points with their losses, as many as a generation has.
  void update(std::vector<std::pair<double, VectorXd>> generation) {
    std::stable_sort(generation.begin(), generation.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    ++generations_;
    MatrixXd steps(dimensions_, weights_.size());
    for (Index i = 0; i < weights_.size(); ++i) {
      steps.col(i) = (generation[static_cast<std::size_t>(i)].second - mean_) / width_;
    }
    const VectorXd step = steps * weights_;
    mean_ += width_ * step;
    width_path_ = (1 - width_rate_) * width_path_ +
                  std::sqrt(width_rate_ * (2 - width_rate_) * effective_) * (whitening_ * step);
    const double length = width_path_.norm();
    const double kept = 1 - std::pow(1 - width_rate_, 2.0 * static_cast<double>(generations_));
    const bool is_short = length / std::sqrt(kept) <
                          (1.4 + 2 / (static_cast<double>(dimensions_) + 1)) * expected_length_;
    path_ = (1 - path_rate_) * path_;
    if (is_short) path_ += std::sqrt(path_rate_ * (2 - path_rate_) * effective_) * step;
    const double stall = is_short ? 0 : rank_one_ * path_rate_ * (2 - path_rate_);
    covariance_ = (1 - rank_one_ - rank_mu_ + stall) * covariance_ +
                  rank_one_ * (path_ * path_.transpose()) +
                  rank_mu_ * (steps * weights_.asDiagonal() * steps.transpose());
    width_ *= std::exp(std::min(1.0, width_rate_ / damping_ * (length / expected_length_ - 1)));
    width_ = std::clamp(width_, 1e-12, 1.0);
    decompose();
  }

 private:
  void decompose() {
    const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(0.5 *
                                                         (covariance_ + covariance_.transpose()));
    const VectorXd roots = solver.eigenvalues().array().max(1e-20).sqrt();
    axes_ = solver.eigenvectors() * roots.asDiagonal();
    whitening_ = solver.eigenvectors() * roots.cwiseInverse().asDiagonal() *
                 solver.eigenvectors().transpose();
  }

  Index dimensions_;
  Index population_;
  VectorXd weights_;
  double effective_ = 0;
  double path_rate_ = 0;
  double width_rate_ = 0;
  double rank_one_ = 0;
  double rank_mu_ = 0;
  double damping_ = 0;
  double expected_length_ = 0;

  std::int64_t generations_ = 0;
  VectorXd mean_;
  double width_ = kFirstWidth;
  MatrixXd covariance_;
  MatrixXd axes_;
  MatrixXd whitening_;
  VectorXd path_;
  VectorXd width_path_;
};

// Replays the generations of the history: those that are done, in their order, this many at a time.
class CmaEsSearcher : public Searcher {
 public:
  CmaEsSearcher(SearchSpace space, std::uint64_t seed) : space_(std::move(space)), seed_(seed) {}

  std::vector<Point> suggest(std::size_t count,
                             std::span<const Observation> history) const override {
    Distribution distribution(static_cast<Index>(space_.size()));
    std::vector<std::pair<double, VectorXd>> generation;
    for (const Observation& trial : history) {
      if (trial.outcome == Observation::Outcome::kRunning) continue;
      VectorXd point(static_cast<Index>(space_.size()));
      for (std::size_t i = 0; i < space_.size(); ++i) {
        point(static_cast<Index>(i)) = std::isnan(trial.point[i]) ? 0.5 : trial.point[i];
      }
      generation.emplace_back(trial.outcome == Observation::Outcome::kDone
                                  ? trial.loss
                                  : std::numeric_limits<double>::infinity(),
                              std::move(point));
      if (generation.size() < distribution.population()) continue;
      distribution.update(std::move(generation));
      generation.clear();
    }
    return one_by_one(count, history, [&](std::span<const Observation> known) {
      // Two trials are on opposite sides of the mean: so few of them cover all directions better.
      Random random(seed_, kDrawPart, known.size() / 2);
      return space_.snap(distribution.draw(random, known.size() % 2 == 0 ? 1 : -1));
    });
  }

 private:
  const SearchSpace space_;
  const std::uint64_t seed_;
};

}  // namespace

SearchAlgorithm cma_es_search_algorithm() {
  return {.names = {"CMA_ES"}, .make = [](SearchSpace space, std::uint64_t seed) {
            return std::make_unique<CmaEsSearcher>(std::move(space), seed);
          }};
}

}  // namespace muster::tuning
