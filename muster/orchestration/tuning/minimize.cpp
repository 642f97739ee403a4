#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <utility>

#include "muster/orchestration/tuning/minimize_internal.h"

namespace muster::tuning {
namespace {

constexpr std::size_t kPairs = 8;
constexpr double kArmijo = 1e-4;
constexpr double kLeastGain = 1e-9;
constexpr double kLeastStep = 1e-10;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The inverse Hessian as the last steps tell it.
class InverseHessian {
 public:
  void add(std::vector<double> step, std::vector<double> change) {
    const double curvature = dot(step, change);
    if (curvature <= 1e-12 * dot(change, change)) return;
    pairs_.push_back({std::move(step), std::move(change), 1 / curvature});
    if (pairs_.size() > kPairs) pairs_.pop_front();
  }
  void forget() { pairs_.clear(); }
  bool is_empty() const { return pairs_.empty(); }

  std::vector<double> times(std::vector<double> vector) const {
    std::vector<double> weights(pairs_.size());
    for (std::size_t i = pairs_.size(); i-- > 0;) {
      weights[i] = pairs_[i].inverse_curvature * dot(pairs_[i].step, vector);
      subtract(vector, pairs_[i].change, weights[i]);
    }
    if (!pairs_.empty()) {
      const Pair& last = pairs_.back();
      const double scale = 1 / (last.inverse_curvature * dot(last.change, last.change));
      for (double& element : vector) element *= scale;
    }
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const double weight = pairs_[i].inverse_curvature * dot(pairs_[i].change, vector);
      subtract(vector, pairs_[i].step, weight - weights[i]);
    }
    return vector;
  }

 private:
  struct Pair {
    std::vector<double> step;
    std::vector<double> change;
    double inverse_curvature;
  };

  static void subtract(std::vector<double>& from, const std::vector<double>& what, double weight) {
    for (std::size_t i = 0; i < from.size(); ++i) from[i] -= weight * what[i];
  }

  std::deque<Pair> pairs_;
};

class Descent {
 public:
  Descent(const Differentiable& function, std::vector<double> start, const std::vector<double>& low,
          const std::vector<double>& high, int most_evaluations)
      : function_(function), low_(low), high_(high), left_(most_evaluations) {
    for (std::size_t i = 0; i < start.size(); ++i) start[i] = std::clamp(start[i], low[i], high[i]);
    at_.place = std::move(start);
    gradient_.resize(at_.place.size());
    at_.value = evaluate(at_.place, gradient_);
  }

  Minimum run() {
    while (left_ > 0 && step()) {
    }
    return std::move(at_);
  }

 private:
  double evaluate(const std::vector<double>& place, std::vector<double>& gradient) {
    --left_;
    return function_(place, gradient);
  }

  // The gradient without what pushes against a bound.
  std::vector<double> free_gradient() const {
    std::vector<double> free = gradient_;
    for (std::size_t i = 0; i < free.size(); ++i) {
      const bool is_held = (at_.place[i] <= low_[i] && gradient_[i] > 0) ||
                           (at_.place[i] >= high_[i] && gradient_[i] < 0);
      if (is_held) free[i] = 0;
    }
    return free;
  }

  // Whether there is more to gain.
  bool step() {
    const std::vector<double> free = free_gradient();
    const double steepness = std::sqrt(dot(free, free));
    if (!(steepness > 1e-8)) return false;
    std::vector<double> direction = hessian_.times(free);
    for (std::size_t i = 0; i < direction.size(); ++i) {
      if (free[i] == 0) direction[i] = 0;
    }
    if (dot(direction, free) <= 1e-10 * steepness * std::sqrt(dot(direction, direction))) {
      hessian_.forget();
      direction = free;
    }
    const double length = hessian_.is_empty() ? std::min(1.0, 0.1 / steepness) : 1.0;
    return search_line(direction, length);
  }

  bool search_line(const std::vector<double>& direction, double length) {
    std::vector<double> place(direction.size());
    std::vector<double> gradient(direction.size());
    std::vector<double> moved(direction.size());
    for (; left_ > 0 && length > kLeastStep; length *= 0.35) {
      for (std::size_t i = 0; i < place.size(); ++i) {
        place[i] = std::clamp(at_.place[i] - length * direction[i], low_[i], high_[i]);
        moved[i] = place[i] - at_.place[i];
      }
      const double value = evaluate(place, gradient);
      // Negated, so that a NaN is too far.
      if (!(value <= at_.value + kArmijo * dot(gradient_, moved))) continue;
      std::vector<double> change(gradient.size());
      for (std::size_t i = 0; i < change.size(); ++i) change[i] = gradient[i] - gradient_[i];
      const double gain = at_.value - value;
      hessian_.add(moved, std::move(change));
      at_ = {place, value};
      gradient_ = gradient;
      return gain > kLeastGain * (1 + std::abs(value));
    }
    return false;
  }

  const Differentiable& function_;
  const std::vector<double>& low_;
  const std::vector<double>& high_;
  int left_;
  Minimum at_;
  std::vector<double> gradient_;
  InverseHessian hessian_;
};

}  // namespace

Minimum minimize(const Differentiable& function, std::vector<double> start,
                 const std::vector<double>& low, const std::vector<double>& high,
                 int most_evaluations) {
  return Descent(function, std::move(start), low, high, most_evaluations).run();
}

}  // namespace muster::tuning
