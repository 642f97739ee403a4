#include "muster/orchestration/tuning/gaussian_process_internal.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "muster/orchestration/tuning/minimize_internal.h"

namespace muster::tuning {
namespace {

using Eigen::ArrayXd;
using Eigen::ArrayXXd;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

const double kRoot5 = std::sqrt(5.0);

// Priors, on logarithms. A length scale grows with the root of the dimensions, as distances do.
constexpr double kLengthDeviation = 1.0;
constexpr double kNoiseMean = -11.5;
constexpr double kNoiseDeviation = 4.0;
// The signal's variance is near that of the values, as if this many values had said so.
constexpr double kVarianceWeight = 2.0;
constexpr int kFitEvaluations = 40;

struct Bounds {
  double low;
  double high;
};
const Bounds kLengthBounds{std::log(0.02), std::log(30.0)};
const Bounds kNoiseBounds{std::log(1e-9), std::log(2.0)};

double length_mean(std::size_t dimensions) {
  return std::log(0.2) + 0.5 * std::log(static_cast<double>(dimensions));
}

}  // namespace

struct GaussianProcess::Impl {
  explicit Impl(Data given) : data(std::move(given)) {
    points = Eigen::Map<const RowMatrix>(data.points.data(), static_cast<Index>(data.size()),
                                         static_cast<Index>(data.dimensions()));
    values = Eigen::Map<const VectorXd>(data.values.data(), static_cast<Index>(data.size()));
    measure_distances();
    fit();
    condition();
  }

  Index size() const { return points.rows(); }
  Index dimensions() const { return points.cols(); }

  double difference(Index coordinate, double a, double b) const {
    if (data.is_categorical[static_cast<std::size_t>(coordinate)]) return a == b ? 0.0 : 1.0;
    return a - b;
  }

  // Squared, of all pairs of points, by coordinate.
  void measure_distances() {
    distances.resize(size() * (size() - 1) / 2, dimensions());
    for (Index d = 0; d < dimensions(); ++d) {
      Index pair = 0;
      for (Index i = 0; i < size(); ++i) {
        for (Index j = 0; j < i; ++j, ++pair) {
          const double apart = difference(d, points(i, d), points(j, d));
          distances(pair, d) = apart * apart;
        }
      }
    }
  }

  // The negated log posterior of length scales and noise (logarithms), with mean and variance at
  // their best values.
  double loss(const std::vector<double>& place, std::vector<double>& gradient) const {
    const Index n = size();
    const Index dims = dimensions();
    VectorXd inverse_squares(dims);
    for (Index d = 0; d < dims; ++d) {
      inverse_squares(d) = std::exp(-2 * place[static_cast<std::size_t>(d)]);
    }
    const double noise_share = std::exp(place[static_cast<std::size_t>(dims)]);
    const ArrayXd r = kRoot5 * (distances * inverse_squares).array().sqrt();
    const ArrayXd decay = (-r).exp();
    const ArrayXd correlation = (1 + r + r.square() / 3) * decay;
    MatrixXd matrix = MatrixXd::Identity(n, n) * (1 + noise_share);
    Index pair = 0;
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < i; ++j) matrix(i, j) = correlation(pair++);
    }
    const Eigen::LLT<MatrixXd, Eigen::Lower> cholesky(matrix);
    if (cholesky.info() != Eigen::Success) {
      std::fill(gradient.begin(), gradient.end(), 0.0);
      return std::numeric_limits<double>::infinity();
    }
    MatrixXd inverse = MatrixXd::Identity(n, n);
    cholesky.solveInPlace(inverse);
    const VectorXd row_sums = inverse.rowwise().sum();
    const double mean_here = row_sums.dot(values) / row_sums.sum();
    const VectorXd residual = values.array() - mean_here;
    const VectorXd solved = inverse * residual;
    const double count = static_cast<double>(n) + kVarianceWeight;
    const double squares = residual.dot(solved) + kVarianceWeight;
    const double log_determinant = cholesky.matrixLLT().diagonal().array().log().sum();
    double result = 0.5 * count * std::log(squares) + log_determinant;

    // d loss / d matrix, of which the pairs are one half.
    const double scale = count / squares;
    ArrayXd by_pair(correlation.size());
    pair = 0;
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < i; ++j, ++pair) {
        by_pair(pair) = inverse(i, j) - scale * solved(i) * solved(j);
      }
    }
    by_pair *= (5.0 / 3.0) * (1 + r) * decay;
    const VectorXd by_length = distances.transpose() * by_pair.matrix();
    for (Index d = 0; d < dims; ++d) {
      gradient[static_cast<std::size_t>(d)] = by_length(d) * inverse_squares(d);
    }
    gradient[static_cast<std::size_t>(dims)] =
        0.5 * noise_share * (inverse.trace() - scale * solved.squaredNorm());
    return result + add_priors(place, gradient);
  }

  double add_priors(const std::vector<double>& place, std::vector<double>& gradient) const {
    double sum = 0;
    for (std::size_t i = 0; i < place.size(); ++i) {
      const bool is_noise = i + 1 == place.size();
      const double mean_here = is_noise ? kNoiseMean : length_mean(data.dimensions());
      const double deviation = is_noise ? kNoiseDeviation : kLengthDeviation;
      const double away = (place[i] - mean_here) / deviation;
      sum += 0.5 * away * away;
      gradient[i] += away / deviation;
    }
    return sum;
  }

  void fit() {
    const std::size_t count = data.dimensions() + 1;
    std::vector<double> low(count, kLengthBounds.low);
    std::vector<double> high(count, kLengthBounds.high);
    low.back() = kNoiseBounds.low;
    high.back() = kNoiseBounds.high;
    const Differentiable function = [this](const std::vector<double>& place,
                                           std::vector<double>& gradient) {
      return loss(place, gradient);
    };
    Minimum best{.value = std::numeric_limits<double>::infinity()};
    const double middle = length_mean(data.dimensions());
    const std::pair<double, double> starts[] = {{middle, std::log(1e-5)},
                                                {middle - 1.2, std::log(1e-2)}};
    for (const auto& start : starts) {
      std::vector<double> place(count, start.first);
      place.back() = start.second;
      Minimum found = minimize(function, std::move(place), low, high, kFitEvaluations);
      if (best.place.empty() || found.value < best.value) best = std::move(found);
    }
    posterior = -best.value;
    noise = std::exp(best.place.back());
    best.place.pop_back();
    for (double& length : best.place) length = std::exp(length);
    lengths = std::move(best.place);
  }

  // The distances of a point to all others, by the length scales, times the root of 5.
  ArrayXd distances_to(const double* point) const {
    ArrayXd squares = ArrayXd::Zero(size());
    for (Index d = 0; d < dimensions(); ++d) {
      const double inverse = 1 / lengths[static_cast<std::size_t>(d)];
      if (data.is_categorical[static_cast<std::size_t>(d)]) {
        squares += (points.col(d).array() != point[d]).cast<double>() * (inverse * inverse);
      } else {
        squares += ((points.col(d).array() - point[d]) * inverse).square();
      }
    }
    return kRoot5 * squares.sqrt();
  }

  static VectorXd correlation_at(const ArrayXd& r) {
    return ((1 + r + r.square() / 3) * (-r).exp()).matrix();
  }

  // Computes what predictions need of the points: factor, weights, mean and variance.
  void condition() {
    const Index n = size();
    MatrixXd matrix(n, n);
    for (Index i = 0; i < n; ++i) {
      const VectorXd row = points.row(i);
      matrix.col(i) = correlation_at(distances_to(row.data()));
    }
    // More where rounding has made it singular: points that are on each other.
    double jitter = noise;
    do {
      MatrixXd noisy = matrix;
      noisy.diagonal().array() += jitter;
      factor.compute(noisy);
      jitter = std::max(jitter * 10, 1e-10);
    } while (factor.info() != Eigen::Success && jitter < 1);
    if (!is_fixed) {
      const VectorXd ones = VectorXd::Ones(n);
      const VectorXd solved = factor.solve(ones);
      mean = solved.dot(values) / solved.sum();
    }
    weights = factor.solve((values.array() - mean).matrix());
    if (!is_fixed) {
      variance = ((values.array() - mean).matrix().dot(weights) + kVarianceWeight) /
                 (static_cast<double>(n) + kVarianceWeight);
    }
  }

  Data data;
  MatrixXd points;
  VectorXd values;
  MatrixXd distances;
  std::vector<double> lengths;
  double noise = 0;
  double posterior = 0;
  double mean = 0;
  double variance = 1;
  bool is_fixed = false;
  Eigen::LLT<MatrixXd, Eigen::Lower> factor;
  VectorXd weights;
};

GaussianProcess::GaussianProcess(Data data) : impl_(std::make_unique<Impl>(std::move(data))) {}
GaussianProcess::~GaussianProcess() = default;
GaussianProcess::GaussianProcess(GaussianProcess&&) noexcept = default;
GaussianProcess& GaussianProcess::operator=(GaussianProcess&&) noexcept = default;

void GaussianProcess::believe(const std::vector<double>& point) {
  const double expected = predict(point, false).mean;
  const Index n = impl_->size();
  impl_->points.conservativeResize(n + 1, Eigen::NoChange);
  impl_->values.conservativeResize(n + 1);
  impl_->points.row(n) = Eigen::Map<const Eigen::RowVectorXd>(point.data(), impl_->dimensions());
  impl_->values(n) = expected;
  impl_->is_fixed = true;
  impl_->condition();
}

GaussianProcess::Prediction GaussianProcess::predict(const std::vector<double>& point,
                                                     bool with_gradient) const {
  const Impl& impl = *impl_;
  const ArrayXd r = impl.distances_to(point.data());
  const VectorXd correlation = Impl::correlation_at(r);
  const VectorXd half = impl.factor.matrixL().solve(correlation);
  Prediction prediction;
  prediction.mean = impl.mean + correlation.dot(impl.weights);
  const double left = std::max(1 - half.squaredNorm(), 1e-12);
  prediction.deviation = std::sqrt(impl.variance * left);
  if (!with_gradient) return prediction;

  const VectorXd solved = impl.factor.matrixU().solve(half);
  // d correlation / d (squared distance over 2), negated.
  const ArrayXd slope = (5.0 / 3.0) * (1 + r) * (-r).exp();
  for (Index d = 0; d < impl.dimensions(); ++d) {
    const auto at = static_cast<std::size_t>(d);
    double mean_slope = 0;
    double variance_slope = 0;
    if (!impl.data.is_categorical[at]) {
      const double inverse = 1 / (impl.lengths[at] * impl.lengths[at]);
      const ArrayXd change = slope * (impl.points.col(d).array() - point[at]) * inverse;
      mean_slope = change.matrix().dot(impl.weights);
      variance_slope = -2 * impl.variance * change.matrix().dot(solved);
    }
    prediction.mean_gradient.push_back(mean_slope);
    prediction.deviation_gradient.push_back(variance_slope / (2 * prediction.deviation));
  }
  return prediction;
}

void GaussianProcess::predict(const std::vector<double>& points, std::vector<double>& means,
                              std::vector<double>& deviations) const {
  const Impl& impl = *impl_;
  const Index dims = impl.dimensions();
  const Index count = static_cast<Index>(points.size()) / dims;
  MatrixXd correlations(impl.size(), count);
  for (Index i = 0; i < count; ++i) {
    correlations.col(i) = Impl::correlation_at(impl.distances_to(points.data() + i * dims));
  }
  const VectorXd all = (correlations.transpose() * impl.weights).array() + impl.mean;
  impl.factor.matrixL().solveInPlace(correlations);
  const ArrayXd left = (1 - correlations.colwise().squaredNorm().transpose().array()).max(1e-12);
  const ArrayXd roots = (impl.variance * left).sqrt();
  means.assign(all.data(), all.data() + count);
  deviations.assign(roots.data(), roots.data() + count);
}

const std::vector<double>& GaussianProcess::length_scales() const { return impl_->lengths; }
double GaussianProcess::noise() const { return impl_->noise; }
double GaussianProcess::log_posterior() const { return impl_->posterior; }

}  // namespace muster::tuning
