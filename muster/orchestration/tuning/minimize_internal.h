#pragma once

#include <functional>
#include <vector>

namespace muster::tuning {

/// The value of a function at a place, and its gradient into the second argument.
using Differentiable =
    std::function<double(const std::vector<double>& place, std::vector<double>& gradient)>;

struct Minimum {
  std::vector<double> place{};
  double value = 0;
};

/// Goes down from `start` inside the box, by L-BFGS over the coordinates that no bound holds. Ends
/// after this many evaluations, or when a step gains next to nothing.
Minimum minimize(const Differentiable& function, std::vector<double> start,
                 const std::vector<double>& low, const std::vector<double>& high,
                 int most_evaluations);

}  // namespace muster::tuning
