#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace muster {

/// A number of 106 bits: the sum of both.
struct DoublePair {
  double high = 0;
  double low = 0;
};

/// The sum of doubles without rounding, so that it is the same in any order and merges exactly. Not
/// for infinities and NaN.
class ExactColumnSum {
 public:
  void add(double value);
  /// Adds the square of `value`, also without rounding while it is no less than 1e-150.
  void add_square(double value);
  void merge(const ExactColumnSum& other);
  DoublePair value() const;

 private:
  /// Digits of 32 bits, from 2^-1152 up, each with room for carries.
  static constexpr int kLowestBit = -1152;
  static constexpr std::size_t kDigits = 72;
  static constexpr std::uint32_t kMostAdditions = 1U << 29;

  void carry();

  std::array<std::int64_t, kDigits> digits_{};
  std::uint32_t additions_ = 0;
};

}  // namespace muster
