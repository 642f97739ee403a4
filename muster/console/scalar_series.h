#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster::console {

/// One value of a curve.
struct Point {
  std::int64_t step = 0;
  /// Seconds since 1970.
  double time = 0;
  double value = 0;

  bool operator==(const Point&) const = default;
};

/// At most so many points that a curve drawn through them looks as one through all: of every
/// stretch the smallest and the largest value stay, in their order, and so do the first and the
/// last point.
std::vector<Point> downsampled(std::span<const Point> points, std::size_t most);

/// The curve of one scalar, in memory that does not grow with the run: a series that becomes too
/// long keeps the smallest and the largest value of every stretch, and stretches grow with it.
class ScalarSeries {
 public:
  /// A step below the last one means that training went on from an earlier checkpoint: what lies
  /// after it was given up, and goes. `most` is how many points may be kept, 8 at least.
  void add(const Point& point, std::size_t most);

  /// The same rule for a point that is not added itself.
  void resume_at(std::int64_t step);

  /// How many were added and not given up.
  std::uint64_t count() const { return count_; }
  const Point& last() const { return last_; }
  /// Points that memory is taken for.
  std::size_t held() const { return kept_.capacity(); }
  /// All points of a short series, else those that stayed; the last one is always there.
  std::vector<Point> points() const;
  /// Whether points() are all.
  bool is_whole() const { return stretch_ == 1; }

 private:
  void give_up_from(std::int64_t step);
  void keep(const Point& point);
  void end_stretch();
  void halve();

  std::vector<Point> kept_;
  // How many points become two; 1: all are kept.
  std::uint64_t stretch_ = 1;
  // State of the stretch that is not complete.
  std::uint64_t in_stretch_ = 0;
  Point smallest_{};
  Point largest_{};
  Point last_{};
  std::uint64_t count_ = 0;
};

}  // namespace muster::console
