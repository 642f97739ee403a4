#include <cmath>

#include "muster/data/tables/exact_sum_internal.h"

namespace muster {

void ExactColumnSum::add(double value) {
  if (value == 0) return;
  int exponent = 0;
  // A whole number of 53 bits times a power of two.
  const auto whole = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  const int lowest = exponent - 53 - kLowestBit;
  const auto digit = static_cast<std::size_t>(lowest / 32);
  const int shift = lowest % 32;
  const bool is_negative = whole < 0;
  const auto size = static_cast<std::uint64_t>(is_negative ? -whole : whole);
  // 53 bits moved by up to 31 are three digits.
  const std::uint64_t low = size << shift;
  const std::uint64_t high = shift == 0 ? 0 : size >> (64 - shift);
  const std::int64_t parts[] = {static_cast<std::int64_t>(low & 0xffffffffU),
                                static_cast<std::int64_t>(low >> 32),
                                static_cast<std::int64_t>(high)};
  for (std::size_t i = 0; i < 3; ++i) digits_[digit + i] += is_negative ? -parts[i] : parts[i];
  if (++additions_ >= kMostAdditions) carry();
}

void ExactColumnSum::add_square(double value) {
  const double high = value * value;
  if (!std::isfinite(high)) return add(high > 0 ? 0x1.fffffffffffffp1023 : 0);
  add(high);
  add(std::fma(value, value, -high));
}

void ExactColumnSum::carry() {
  for (std::size_t i = 0; i + 1 < kDigits; ++i) {
    const std::int64_t over = digits_[i] >> 32;
    digits_[i] -= over * (std::int64_t{1} << 32);
    digits_[i + 1] += over;
  }
  additions_ = 0;
}

void ExactColumnSum::merge(const ExactColumnSum& other) {
  ExactColumnSum carried = other;
  carried.carry();
  carry();
  for (std::size_t i = 0; i < kDigits; ++i) digits_[i] += carried.digits_[i];
  additions_ = 2;
}

DoublePair ExactColumnSum::value() const {
  ExactColumnSum carried = *this;
  carried.carry();
  // After carrying, all digits but the topmost are positive: of a negative sum, its opposite is
  // taken, whose digits are no larger than it.
  const bool is_negative = carried.digits_.back() < 0;
  if (is_negative) {
    for (std::int64_t& digit : carried.digits_) digit = -digit;
    carried.carry();
  }
  DoublePair sum;
  for (std::size_t i = kDigits; i-- > 0;) {
    const double part =
        std::ldexp(static_cast<double>(carried.digits_[i]), static_cast<int>(i) * 32 + kLowestBit);
    const double high = sum.high + part;
    const double back = high - sum.high;
    sum.low += (sum.high - (high - back)) + (part - back);
    sum.high = high;
  }
  const double high = sum.high + sum.low;
  const double low = sum.low - (high - sum.high);
  return is_negative ? DoublePair{-high, -low} : DoublePair{high, low};
}

}  // namespace muster
