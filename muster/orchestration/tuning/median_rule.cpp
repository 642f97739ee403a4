#include "muster/orchestration/tuning/median_rule.h"

#include <algorithm>
#include <cmath>

namespace muster::tuning {
namespace {

// The mean of the two in the middle where there are two.
double median_average(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

bool stops_by_median(Goal goal, std::span<const Measurement> running,
                     std::span<const std::vector<Measurement>> completed) {
  if (running.empty()) return false;
  const double sign = goal == Goal::kMaximize ? 1 : -1;
  double best = sign * running.front().value;
  for (const Measurement& measurement : running) best = std::max(best, sign * measurement.value);
  std::vector<double> averages;
  for (const auto& trial : completed) {
    double sum = 0;
    double count = 0;
    for (const Measurement& measurement : trial) {
      if (measurement.step > running.back().step) break;
      if (!std::isfinite(measurement.value)) continue;
      sum += sign * measurement.value;
      ++count;
    }
    if (count > 0) averages.push_back(sum / count);
  }
  return !averages.empty() && best < median_average(std::move(averages));
}

}  // namespace muster::tuning
