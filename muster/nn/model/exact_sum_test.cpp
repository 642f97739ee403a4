#include "muster/nn/model/exact_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster {
namespace {

std::string bytes_of(const ExactSum& sum) {
  StateWriter out;
  sum.write(out);
  return std::move(out).take();
}

// Numbers of all sizes and both signs, whose plain sum depends on the order.
std::vector<double> wild_values(std::size_t count) {
  Random random(7);
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    const int exponent = static_cast<int>(random.below(600)) - 300;
    values.push_back(std::ldexp(random.uniform(-1, 1), exponent));
  }
  return values;
}

TEST(ExactSum, RoundsOnlyOnce) {
  ExactSum sum;
  for (const double value : {1e300, 1.0, -1e300, 1e-300}) sum.add(value);
  EXPECT_EQ(sum.value(), 1.0);
  sum.add(-1.0);
  EXPECT_EQ(sum.value(), 1e-300);
  sum.add(-1e-300);
  EXPECT_EQ(sum.value(), 0.0);
}

TEST(ExactSum, RoundsToTheNearestDoubleAndTiesToEven) {
  ExactSum tie;
  tie.add(1.0);
  tie.add(0x1.0p-53);
  EXPECT_EQ(tie.value(), 1.0);
  tie.add(0x1.0p-1074);
  EXPECT_EQ(tie.value(), 1.0 + 0x1.0p-52);
}

TEST(ExactSum, OfOneNumberIsThatNumber) {
  for (const double value : wild_values(1000)) {
    ExactSum sum;
    sum.add(value);
    EXPECT_EQ(sum.value(), value);
  }
  for (const double edge : {std::numeric_limits<double>::max(), 0x1.0p-1074, -0x1.8p-1070}) {
    ExactSum sum;
    sum.add(edge);
    EXPECT_EQ(sum.value(), edge);
  }
}

TEST(ExactSum, HasTheSameBytesInEveryOrderAndGrouping) {
  const auto values = wild_values(2000);
  ExactSum forward;
  for (const double value : values) forward.add(value);
  ExactSum backward;
  for (auto value = values.rbegin(); value != values.rend(); ++value) backward.add(*value);
  std::vector<ExactSum> parts(7);
  for (std::size_t i = 0; i < values.size(); ++i) parts[i * i % 7].add(values[i]);
  ExactSum merged;
  for (const auto& part : parts) merged.merge(part);
  EXPECT_EQ(bytes_of(forward), bytes_of(backward));
  EXPECT_EQ(bytes_of(forward), bytes_of(merged));
  EXPECT_EQ(forward.value(), merged.value());
}

TEST(ExactSum, CarriesBeforeDigitsOverflow) {
  ExactSum one;
  one.add(std::nextafter(2.0, 0.0));
  ExactSum sum = one;
  // Doubling 70 times adds 2^70 of them, far more than a digit has room for.
  for (int i = 0; i < 70; ++i) sum.merge(ExactSum(sum));
  EXPECT_EQ(sum.value(), std::ldexp(std::nextafter(2.0, 0.0), 70));
}

TEST(ExactSum, KeepsInfinitiesAndNaN) {
  ExactSum sum;
  sum.add(std::numeric_limits<double>::infinity());
  EXPECT_EQ(sum.value(), std::numeric_limits<double>::infinity());
  ExactSum other;
  other.add(-std::numeric_limits<double>::infinity());
  sum.merge(other);
  EXPECT_TRUE(std::isnan(sum.value()));
}

TEST(ExactSum, ComesBackFromItsBytes) {
  for (const double value : {0.0, -1.5, 3e200, -1e-320}) {
    ExactSum sum;
    sum.add(value);
    sum.add(0.1);
    const auto bytes = bytes_of(sum);
    StateReader in(bytes);
    EXPECT_EQ(bytes_of(ExactSum::read(in)), bytes);
    EXPECT_EQ(in.left(), 0U);
  }
}

TEST(ExactSum, RejectsDamagedBytes) {
  StateWriter out;
  out.u8(0);
  out.u32(0);
  out.u32(0xFFFFFFFF);
  const auto huge = std::move(out).take();
  StateReader in(huge);
  EXPECT_THROW(ExactSum::read(in), DataLoss);
  StateReader nothing("");
  EXPECT_THROW(ExactSum::read(nothing), DataLoss);
}

TEST(WeightedCount, CountsOnesAndOtherWeightsTogether) {
  WeightedCount count;
  for (int i = 0; i < 10; ++i) count.add(0.1F);
  count.add(1.0);
  count.add_one();
  EXPECT_DOUBLE_EQ(count.value(), 2.0 + 10 * static_cast<double>(0.1F));
}

}  // namespace
}  // namespace muster
