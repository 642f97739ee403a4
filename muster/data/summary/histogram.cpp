#include "muster/data/summary/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace muster {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

std::vector<double> make_limits() {
  std::vector<double> positive;
  // Repeated multiplication, not powers: the limits must be TensorFlow's to the last bit.
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  positive.push_back(kLargest);
  std::vector<double> limits;
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) limits.push_back(-*limit);
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

std::size_t bucket_of(double value) {
  const auto limits = Histogram::default_limits();
  const auto limit = std::upper_bound(limits.begin(), limits.end(), value);
  // Only the largest double is not below any limit.
  return std::min(static_cast<std::size_t>(limit - limits.begin()), limits.size() - 1);
}

}  // namespace

std::span<const double> Histogram::default_limits() {
  static const std::vector<double> limits = make_limits();
  return limits;
}

Histogram::Histogram() : min_(kLargest), max_(-kLargest), counts_(default_limits().size()) {}

void Histogram::add(double value) {
  if (!std::isfinite(value)) {
    ++non_finite_;
    return;
  }
  ++counts_[bucket_of(value)];
  ++num_;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += value;
  sum_squares_ += value * value;
}

void Histogram::add(std::span<const float> values) {
  for (const float value : values) add(double{value});
}

void Histogram::add(std::span<const double> values) {
  for (const double value : values) add(value);
}

HistogramData Histogram::data() const {
  HistogramData data{.min = min_,
                     .max = max_,
                     .num = static_cast<double>(num_),
                     .sum = sum_,
                     .sum_squares = sum_squares_};
  const auto limits = default_limits();
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const bool run_goes_on = counts_[i] == 0 && !data.counts.empty() && data.counts.back() == 0;
    if (run_goes_on) {
      data.limits.back() = limits[i];
    } else {
      data.limits.push_back(limits[i]);
      data.counts.push_back(static_cast<double>(counts_[i]));
    }
  }
  return data;
}

}  // namespace muster
