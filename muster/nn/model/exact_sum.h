#pragma once

#include <cstdint>
#include <vector>

#include "muster/nn/model/metric_state.h"

namespace muster {

/// A sum of doubles without rounding: a fixed-point number wide enough for all of them, of which
/// only the part in use is kept (a Kulisch accumulator in 32-bit digits). Since nothing is rounded
/// before value(), the order and grouping of additions and merges cannot change a bit.
class ExactSum {
 public:
  void add(double value);
  void merge(const ExactSum& other);
  /// The sum rounded to the nearest double (at the edge of underflow, to one of the nearest two);
  /// NaN or infinite as IEEE addition would have it.
  double value() const;

  void write(StateWriter& out) const;
  /// Throws DataLoss.
  static ExactSum read(StateReader& in);

 private:
  void cover(int low, int high);
  void normalize();

  // Digit i weighs 2^(32 * (first_ + i) - 1074) and is kept with room for carries.
  std::vector<std::int64_t> digits_;
  int first_ = 0;
  // Additions since carries were last moved up; few enough that no digit can overflow.
  std::int64_t pending_ = 0;
  bool nan_ = false;
  bool plus_infinity_ = false;
  bool minus_infinity_ = false;
};

/// A count of things that may weigh other than 1: an integer as long as they do not.
class WeightedCount {
 public:
  void add_one() { ++ones_; }
  void add(double weight) {
    if (weight == 1.0) {
      ++ones_;
    } else {
      rest_.add(weight);
    }
  }
  void merge(const WeightedCount& other);
  /// Rounded once.
  double value() const;

  void write(StateWriter& out) const;
  static WeightedCount read(StateReader& in);

 private:
  std::int64_t ones_ = 0;
  ExactSum rest_;
};

}  // namespace muster
