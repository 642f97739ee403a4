#include "muster/console/scalar_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace muster::console {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

Point at(std::int64_t step, double value) {
  return {.step = step, .time = static_cast<double>(step) / 10, .value = value};
}

TEST(ScalarSeries, KeepsAllPointsOfAShortRun) {
  ScalarSeries series;
  for (int step = 0; step < 5; ++step) series.add(at(step, step * step), 100);
  EXPECT_TRUE(series.is_whole());
  EXPECT_THAT(series.points(), ElementsAre(at(0, 0), at(1, 1), at(2, 4), at(3, 9), at(4, 16)));
}

TEST(ScalarSeries, TakesNoMoreMemoryForALongRunAndLosesNoExtreme) {
  constexpr std::size_t kMost = 64;
  ScalarSeries series;
  for (int step = 0; step < 100'000; ++step) {
    const double value = step == 31'337 ? 1e6 : step == 77'777 ? -1e6 : std::sin(step * 0.001);
    series.add(at(step, value), kMost);
    ASSERT_LE(series.points().size(), kMost + 3);
  }
  EXPECT_FALSE(series.is_whole());
  EXPECT_EQ(series.count(), 100'000U);
  const auto points = series.points();
  EXPECT_THAT(points, ::testing::Contains(at(31'337, 1e6)));
  EXPECT_THAT(points, ::testing::Contains(at(77'777, -1e6)));
  EXPECT_EQ(points.back().step, 99'999);
  EXPECT_TRUE(std::ranges::is_sorted(points, {}, &Point::step));
}

TEST(ScalarSeries, GivesUpWhatAResumedRunDoesAgain) {
  ScalarSeries series;
  for (int step = 0; step <= 10; ++step) series.add(at(step, 1), 100);
  series.add(at(7, 2), 100);
  series.add(at(8, 2), 100);
  EXPECT_EQ(series.count(), 9U);
  EXPECT_EQ(series.points().back(), at(8, 2));
  EXPECT_EQ(series.points()[6], at(6, 1));
  EXPECT_THAT(series.points(), SizeIs(9));
}

TEST(ScalarSeries, GivesUpAlsoWhatIsKeptInStretches) {
  ScalarSeries series;
  for (int step = 0; step < 10'000; ++step) series.add(at(step, step % 7), 64);
  series.add(at(5'000, 50), 64);
  for (const Point& point : series.points()) EXPECT_LE(point.step, 5'000);
  EXPECT_EQ(series.points().back(), at(5'000, 50));
}

TEST(Downsampled, KeepsEndsExtremesAndWhatIsNoNumber) {
  std::vector<Point> points;
  points.reserve(10'000);
  for (int step = 0; step < 10'000; ++step) points.push_back(at(step, 0));
  points[4'321].value = 9;
  points[6'789].value = std::numeric_limits<double>::quiet_NaN();
  const auto few = downsampled(points, 100);
  EXPECT_LE(few.size(), 100U);
  EXPECT_EQ(few.front(), points.front());
  EXPECT_EQ(few.back(), points.back());
  EXPECT_THAT(few, ::testing::Contains(points[4'321]));
  EXPECT_TRUE(std::ranges::any_of(few, [](const Point& point) { return std::isnan(point.value); }));
}

}  // namespace
}  // namespace muster::console
