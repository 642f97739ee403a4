#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace muster::tuning {

/// A Gaussian process over points of the unit cube: Matern 5/2 with a length scale per coordinate,
/// a constant mean and noise. A coordinate may be categorical: two values are equal or not.
class GaussianProcess {
 public:
  struct Data {
    /// Row by row, `dimensions` coordinates each.
    std::vector<double> points{};
    /// One value per point; mean 0 and variance 1, about.
    std::vector<double> values{};
    std::vector<bool> is_categorical{};

    std::size_t dimensions() const { return is_categorical.size(); }
    std::size_t size() const { return values.size(); }
  };

  /// Fits length scales and noise: the maximum a posteriori, from several starts.
  explicit GaussianProcess(Data data);
  ~GaussianProcess();
  GaussianProcess(GaussianProcess&&) noexcept;
  GaussianProcess& operator=(GaussianProcess&&) noexcept;

  /// Adds a point with the value that is expected there, so that what is unknown near it is known;
  /// the fit stays.
  void believe(const std::vector<double>& point);

  struct Prediction {
    double mean = 0;
    /// Standard deviation of the function, without the noise.
    double deviation = 0;
    std::vector<double> mean_gradient{};
    std::vector<double> deviation_gradient{};
  };
  Prediction predict(const std::vector<double>& point, bool with_gradient) const;
  /// Means and deviations of many points, row by row.
  void predict(const std::vector<double>& points, std::vector<double>& means,
               std::vector<double>& deviations) const;

  const std::vector<double>& length_scales() const;
  /// As a share of the signal's variance.
  double noise() const;
  /// Up to a constant of the number of points: the larger, the better the model explains the data.
  double log_posterior() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::tuning
