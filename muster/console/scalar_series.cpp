#include "muster/console/scalar_series.h"

#include <algorithm>
#include <cmath>

namespace muster::console {
namespace {

constexpr std::size_t kFewest = 8;

// A value that is no number is a thing to see, as an extreme is.
bool is_below(const Point& a, const Point& b) {
  return a.value < b.value || (std::isnan(a.value) && !std::isnan(b.value));
}

// The extremes of a stretch, in the order of the run.
void append_extremes(std::span<const Point> stretch, std::vector<Point>& out) {
  const auto [smallest, largest] = std::minmax_element(stretch.begin(), stretch.end(), is_below);
  out.push_back(smallest < largest ? *smallest : *largest);
  if (smallest != largest) out.push_back(smallest < largest ? *largest : *smallest);
}

}  // namespace

std::vector<Point> downsampled(std::span<const Point> points, std::size_t most) {
  most = std::max(most, kFewest);
  if (points.size() <= most) return {points.begin(), points.end()};
  std::vector<Point> out;
  out.reserve(most);
  out.push_back(points.front());
  const std::span<const Point> inner = points.subspan(1, points.size() - 2);
  const std::size_t stretches = (most - 2) / 2;
  for (std::size_t i = 0; i < stretches; ++i) {
    const std::size_t begin = inner.size() * i / stretches;
    const std::size_t end = inner.size() * (i + 1) / stretches;
    if (begin < end) append_extremes(inner.subspan(begin, end - begin), out);
  }
  out.push_back(points.back());
  return out;
}

void ScalarSeries::add(const Point& point, std::size_t most) {
  resume_at(point.step);
  if (kept_.size() >= std::max(most, kFewest)) halve();
  keep(point);
  last_ = point;
  ++count_;
}

void ScalarSeries::resume_at(std::int64_t step) {
  if (count_ > 0 && step < last_.step) give_up_from(step);
}

void ScalarSeries::keep(const Point& point) {
  if (stretch_ == 1) {
    kept_.push_back(point);
    return;
  }
  if (in_stretch_ == 0 || is_below(point, smallest_)) smallest_ = point;
  if (in_stretch_ == 0 || is_below(largest_, point)) largest_ = point;
  if (++in_stretch_ == stretch_) end_stretch();
}

void ScalarSeries::end_stretch() {
  if (in_stretch_ == 0) return;
  const bool smallest_first = smallest_.step <= largest_.step;
  kept_.push_back(smallest_first ? smallest_ : largest_);
  kept_.push_back(smallest_first ? largest_ : smallest_);
  in_stretch_ = 0;
}

// Four points become two.
void ScalarSeries::halve() {
  std::vector<Point> fewer;
  fewer.reserve(kept_.size());
  const std::span<const Point> all(kept_);
  for (std::size_t begin = 0; begin < all.size(); begin += 4) {
    append_extremes(all.subspan(begin, std::min<std::size_t>(4, all.size() - begin)), fewer);
  }
  kept_ = std::move(fewer);
  stretch_ = stretch_ == 1 ? 4 : 2 * stretch_;
}

void ScalarSeries::give_up_from(std::int64_t step) {
  end_stretch();
  const auto before = kept_.size();
  while (!kept_.empty() && kept_.back().step >= step) kept_.pop_back();
  const std::uint64_t given_up = (before - kept_.size()) * std::max<std::uint64_t>(1, stretch_ / 2);
  count_ = kept_.empty() ? 0 : count_ - std::min(count_ - 1, given_up);
  last_ = kept_.empty() ? Point() : kept_.back();
}

std::vector<Point> ScalarSeries::points() const {
  std::vector<Point> out = kept_;
  if (in_stretch_ > 0) {
    const bool smallest_first = smallest_.step <= largest_.step;
    out.push_back(smallest_first ? smallest_ : largest_);
    if (smallest_ != largest_) out.push_back(smallest_first ? largest_ : smallest_);
  }
  if (count_ > 0 && (out.empty() || out.back() != last_)) out.push_back(last_);
  return out;
}

}  // namespace muster::console
