#include "muster/orchestration/jobs/pace.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace muster::jobs {
namespace {

constexpr std::size_t kMostPoints = 1000;
constexpr std::size_t kFewestPoints = 3;
// The later half counts, and at least this many intervals: the first steps of a program are slow.
constexpr std::size_t kFewestIntervals = 10;
// An interval of more than this many times the usual time for its steps has a pause in it.
constexpr double kPause = 2;

}  // namespace

void Pace::add(double seconds, std::int64_t step) {
  if (!points_.empty() && (step <= points_.back().step || seconds < points_.back().seconds)) {
    points_.clear();
  }
  points_.push_back({seconds, step});
  if (points_.size() > kMostPoints) points_.pop_front();
}

std::optional<double> Pace::seconds_to(std::int64_t steps) const {
  if (points_.size() < kFewestPoints) return std::nullopt;
  const std::size_t intervals = points_.size() - 1;
  const std::size_t used = std::min(intervals, std::max(kFewestIntervals, intervals / 2));
  struct Interval {
    double seconds;
    double steps;
  };
  std::vector<Interval> last;
  std::vector<double> rates;
  last.reserve(used);
  rates.reserve(used);
  for (std::size_t i = points_.size() - used; i < points_.size(); ++i) {
    const Point& from = points_[i - 1];
    last.push_back(
        {points_[i].seconds - from.seconds, static_cast<double>(points_[i].step - from.step)});
    rates.push_back(last.back().seconds / last.back().steps);
  }
  std::nth_element(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(used / 2),
                   rates.end());
  const double usual = rates[used / 2];
  Interval sum{0, 0};
  double pause_seconds = 0;
  double pauses = 0;
  for (const Interval& one : last) {
    sum.seconds += one.seconds;
    sum.steps += one.steps;
    if (one.seconds <= kPause * usual * one.steps) continue;
    pause_seconds += one.seconds - usual * one.steps;
    ++pauses;
  }
  const auto left = static_cast<double>(std::max<std::int64_t>(steps - points_.back().step, 0));
  return left * sum.seconds / sum.steps + (pauses > 0 ? pause_seconds / pauses : 0);
}

}  // namespace muster::jobs
