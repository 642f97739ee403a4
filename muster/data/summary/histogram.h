#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster {

/// A histogram as event files hold it: counts[i] values are below limits[i] and not below
/// limits[i-1].
struct HistogramData {
  double min = 0;
  double max = 0;
  double num = 0;
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> limits{};
  std::vector<double> counts{};

  bool operator==(const HistogramData&) const = default;
};

/// Counts values into TensorFlow's default buckets: limits from 1e-12 up to 1e20, each 1.1 times
/// the one before, their mirror images below 0, and the largest double at either end. A value; one
/// object belongs to one thread.
class Histogram {
 public:
  Histogram();

  void add(double value);
  void add(std::span<const float> values);
  void add(std::span<const double> values);
  /// Values that were NaN or infinite: counted here, and nowhere else.
  std::uint64_t non_finite() const { return non_finite_; }
  /// Data to write, with runs of empty buckets merged into one. Without values, min is the largest
  /// double and max the smallest, as TensorFlow has it.
  HistogramData data() const;

  /// All limits, ascending.
  static std::span<const double> default_limits();

 private:
  double min_;
  double max_;
  double sum_ = 0;
  double sum_squares_ = 0;
  std::uint64_t num_ = 0;
  std::uint64_t non_finite_ = 0;
  std::vector<std::uint64_t> counts_;
};

}  // namespace muster
