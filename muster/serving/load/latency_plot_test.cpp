#include "muster/serving/load/latency_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

namespace muster::serving {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PlotPoint point(double rate, double p50) {
  return {.rate = rate,
          .p50_seconds = p50,
          .p90_seconds = 2 * p50,
          .p99_seconds = 3 * p50,
          .p999_seconds = 4 * p50};
}

// Places of the circles, in the order of the file: p99.9, p99, p90, p50.
std::vector<std::pair<double, double>> circles(const std::string& svg) {
  std::vector<std::pair<double, double>> out;
  const std::regex circle("<circle cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"");
  for (std::sregex_iterator found(svg.begin(), svg.end(), circle), end; found != end; ++found) {
    out.emplace_back(std::stod((*found)[1]), std::stod((*found)[2]));
  }
  return out;
}

TEST(LatencyPlot, DrawsHigherRatesToTheRightAndHigherLatenciesAbove) {
  const std::string svg = latency_svg({.points = {point(1000, 0.02), point(100, 0.001)}});
  const auto places = circles(svg);
  ASSERT_EQ(places.size(), 8U);
  for (std::size_t i = 0; i < 8; i += 2) {
    EXPECT_LT(places[i].first, places[i + 1].first);
    EXPECT_GT(places[i].second, places[i + 1].second);
  }
  EXPECT_LT(places[0].second, places[6].second);  // p99.9 above p50.
}

TEST(LatencyPlot, LabelsTimesAndRatesByTheirUnits) {
  const std::string svg = latency_svg({.points = {point(1000, 0.0005), point(2000, 0.5)}});
  for (const char* const text : {">100 us<", ">1 ms<", ">100 ms<", ">1 s<", ">10 s<", ">2000<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST(LatencyPlot, MarksTheKneeAndWhatIsBad) {
  LatencyPlot plot{.points = {point(100, 0.001), point(200, 1)}, .knee = 150};
  EXPECT_THAT(latency_svg(plot), AllOf(HasSubstr(">knee 150<"), Not(HasSubstr("fill=\"#fff\"><"))));
  plot.points[1].is_bad = true;
  EXPECT_THAT(latency_svg(plot), HasSubstr("fill=\"#fff\"><title>p99 at 200: 3 s"));
}

TEST(LatencyPlot, EscapesItsTitle) {
  EXPECT_THAT(latency_svg({.title = "<m> & co"}), HasSubstr("&lt;m&gt; &amp; co"));
  // A byte that XML cannot have would make the file unreadable.
  EXPECT_THAT(latency_svg({.title = "m\x1b"}), HasSubstr("m\\x1b"));
}

TEST(LatencyPlot, OfNothingIsAnEmptyPicture) {
  const std::string svg = latency_svg({});
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg"), HasSubstr("</svg>"), Not(HasSubstr("nan"))));
}

}  // namespace
}  // namespace muster::serving
