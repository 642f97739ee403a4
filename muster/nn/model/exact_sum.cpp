#include "muster/nn/model/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr int kDigitBits = 32;
constexpr std::int64_t kDigitMask = 0xFFFFFFFF;
// The smallest double is 2^-1074, which is where digit 0 starts.
constexpr int kLowestExponent = -1074;
// The largest double ends in digit 65; the rest is room for carries.
constexpr int kMaxDigits = 70;
// An addition adds less than 2^32 to a digit, so this many stay far below 2^63.
constexpr std::int64_t kMaxPending = std::int64_t{1} << 29;

}  // namespace

void ExactSum::cover(int low, int high) {
  if (digits_.empty()) first_ = low;
  if (low < first_) {
    digits_.insert(digits_.begin(), static_cast<std::size_t>(first_ - low), 0);
    first_ = low;
  }
  const auto size = static_cast<std::size_t>(high - first_);
  if (size > digits_.size()) digits_.resize(size, 0);
}

void ExactSum::add(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>((bits >> 52) & 0x7FF);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const bool negative = (bits >> 63) != 0;
  if (exponent == 0x7FF) {
    nan_ = nan_ || fraction != 0;
    plus_infinity_ = plus_infinity_ || (fraction == 0 && !negative);
    minus_infinity_ = minus_infinity_ || (fraction == 0 && negative);
    return;
  }
  const std::uint64_t mantissa = exponent == 0 ? fraction : fraction | (std::uint64_t{1} << 52);
  if (mantissa == 0) return;
  if (++pending_ > kMaxPending) {
    normalize();
    ++pending_;
  }
  const int place = exponent == 0 ? 0 : exponent - 1;
  const int shift = place % kDigitBits;
  const std::uint64_t low = mantissa << shift;
  const std::uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  const int digit = place / kDigitBits;
  if (digit < first_ || digit + 3 > first_ + static_cast<int>(digits_.size())) {
    cover(digit, digit + 3);
  }
  auto* const at = digits_.data() + (digit - first_);
  const std::int64_t sign = negative ? -1 : 1;
  at[0] += sign * static_cast<std::int64_t>(low & kDigitMask);
  at[1] += sign * static_cast<std::int64_t>(low >> kDigitBits);
  at[2] += sign * static_cast<std::int64_t>(high);
}

// Afterwards the same value always has the same digits: all in [0, 2^32), none 0 at either end, and
// a negative number ends with a digit of -1.
void ExactSum::normalize() {
  std::int64_t carry = 0;
  for (auto& digit : digits_) {
    const std::int64_t sum = digit + carry;
    digit = sum & kDigitMask;
    carry = sum >> kDigitBits;
  }
  for (; carry != 0 && carry != -1; carry >>= kDigitBits) digits_.push_back(carry & kDigitMask);
  // ... + (2^32 - 1) 2^k - 2^(k + 32) is ... - 2^k.
  const std::int64_t redundant = carry == 0 ? 0 : kDigitMask;
  while (!digits_.empty() && digits_.back() == redundant) digits_.pop_back();
  if (carry == -1) digits_.push_back(-1);
  const auto first_used =
      std::ranges::find_if(digits_, [](std::int64_t digit) { return digit != 0; });
  first_ += static_cast<int>(first_used - digits_.begin());
  digits_.erase(digits_.begin(), first_used);
  if (digits_.empty()) first_ = 0;
  pending_ = digits_.empty() ? 0 : 1;
}

void ExactSum::merge(const ExactSum& other) {
  nan_ = nan_ || other.nan_;
  plus_infinity_ = plus_infinity_ || other.plus_infinity_;
  minus_infinity_ = minus_infinity_ || other.minus_infinity_;
  if (other.digits_.empty()) return;
  if (pending_ + other.pending_ > kMaxPending) {
    ExactSum small = other;
    small.normalize();
    normalize();
    return merge(small);
  }
  cover(other.first_, other.first_ + static_cast<int>(other.digits_.size()));
  for (std::size_t i = 0; i < other.digits_.size(); ++i) {
    digits_[static_cast<std::size_t>(other.first_ - first_) + i] += other.digits_[i];
  }
  pending_ += other.pending_;
}

double ExactSum::value() const {
  if (nan_ || (plus_infinity_ && minus_infinity_)) return std::numeric_limits<double>::quiet_NaN();
  if (plus_infinity_) return std::numeric_limits<double>::infinity();
  if (minus_infinity_) return -std::numeric_limits<double>::infinity();
  ExactSum magnitude = *this;
  magnitude.normalize();
  if (magnitude.digits_.empty()) return 0.0;
  const bool negative = magnitude.digits_.back() == -1;
  if (negative) {
    for (auto& digit : magnitude.digits_) digit = -digit;
    magnitude.normalize();
  }
  // The top three digits have at least 65 bits; what is below them only breaks ties.
  __extension__ using Wide = unsigned __int128;
  Wide top = 0;
  const int count = static_cast<int>(magnitude.digits_.size());
  for (int i = count - 1; i >= count - 3; --i) {
    top = (top << kDigitBits) |
          static_cast<Wide>(i >= 0 ? magnitude.digits_[static_cast<std::size_t>(i)] : 0);
  }
  if (count > 3) top |= 1;  // The lowest digit is never 0.
  const int exponent = (magnitude.first_ + count - 3) * kDigitBits + kLowestExponent;
  const double value = std::ldexp(static_cast<double>(top), exponent);
  return negative ? -value : value;
}

void ExactSum::write(StateWriter& out) const {
  ExactSum canonical = *this;
  canonical.normalize();
  out.u8(static_cast<std::uint8_t>((nan_ ? 1 : 0) | (plus_infinity_ ? 2 : 0) |
                                   (minus_infinity_ ? 4 : 0)));
  out.u32(static_cast<std::uint32_t>(canonical.first_));
  out.u32(static_cast<std::uint32_t>(canonical.digits_.size()));
  for (const auto digit : canonical.digits_) out.i64(digit);
}

ExactSum ExactSum::read(StateReader& in) {
  ExactSum sum;
  const auto flags = in.u8();
  sum.nan_ = (flags & 1) != 0;
  sum.plus_infinity_ = (flags & 2) != 0;
  sum.minus_infinity_ = (flags & 4) != 0;
  const auto first = in.u32();
  const auto count = in.count(sizeof(std::int64_t));
  if (first > kMaxDigits || count > kMaxDigits) {
    throw DataLoss("metric state has a sum of {} digits from {} before offset {}", count, first,
                   in.offset());
  }
  sum.first_ = static_cast<int>(first);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto digit = in.i64();
    if (digit < -1 || digit > kDigitMask) {
      throw DataLoss("metric state has a digit {} before offset {}", digit, in.offset());
    }
    sum.digits_.push_back(digit);
  }
  sum.normalize();
  return sum;
}

void WeightedCount::merge(const WeightedCount& other) {
  ones_ += other.ones_;
  rest_.merge(other.rest_);
}

double WeightedCount::value() const {
  ExactSum sum = rest_;
  sum.add(static_cast<double>(ones_));
  return sum.value();
}

void WeightedCount::write(StateWriter& out) const {
  out.i64(ones_);
  rest_.write(out);
}

WeightedCount WeightedCount::read(StateReader& in) {
  WeightedCount count;
  count.ones_ = in.i64();
  count.rest_ = ExactSum::read(in);
  return count;
}

}  // namespace muster
