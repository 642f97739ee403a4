#include "muster/console/distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::console {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;

TEST(Distribution, HasTheValuesBelowWhichSharesOfAHistogramLie) {
  const auto bands =
      bands_of({.min = -2, .max = 8, .num = 10, .limits = {0, 4, 1e300}, .counts = {2, 6, 2}});
  EXPECT_THAT(bands.front(), DoubleNear(-2, 1e-9));
  EXPECT_THAT(bands[4], DoubleNear(2, 1e-9));     // Half of all: 3 of the 6 from 0 to 4.
  EXPECT_THAT(bands[6], DoubleNear(4.82, 1e-9));  // 8.41 of 10: 0.41 of the 2 from 4 to 8.
  EXPECT_THAT(bands.back(), DoubleNear(8, 1e-9));
}

TEST(Distribution, IsNothingWithoutValues) {
  EXPECT_THAT(bands_of({}), Each(0));
  EXPECT_THAT(bands_of({.min = 1, .max = 1, .limits = {1, 2}, .counts = {0, -3}}), Each(0));
}

TEST(Distribution, OfOneValueIsThatValue) {
  EXPECT_THAT(bands_of({.min = 3, .max = 3, .num = 1, .limits = {4}, .counts = {1}}),
              Each(DoubleNear(3, 1e-9)));
}

}  // namespace
}  // namespace muster::console
