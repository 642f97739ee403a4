#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace muster::jobs {

/// How fast a training goes, from when it came to which step. The time for evaluations and saves is
/// counted, as it is between steps.
class Pace {
 public:
  /// Training had come to `step` at `seconds` of any clock. A step that is not larger than the one
  /// before begins anew: the program was restarted.
  void add(double seconds, std::int64_t step);
  /// Seconds from the last step to the end of a training of `steps`, with an evaluation there if
  /// there were any before. Nothing before three steps were seen.
  std::optional<double> seconds_to(std::int64_t steps) const;

 private:
  struct Point {
    double seconds = 0;
    std::int64_t step = 0;
  };

  std::deque<Point> points_;
};

}  // namespace muster::jobs
