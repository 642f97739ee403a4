#include "muster/orchestration/tuning/study_picture.h"

#include <gtest/gtest.h>

#include <limits>
#include <string_view>

namespace muster::tuning {
namespace {

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Study three_trials() {
  Study study;
  study.spec.metric_tag = "a<b";
  study.spec.params = {{.name = "rate", .max_value = 1},
                       {.name = "kind",
                        .type = ParameterType::kCategorical,
                        .categorical_values = {"sgd", "\"q\"&co"}}};
  const double values[] = {0.5, 0.25, 0.75};
  for (std::int64_t i = 0; i < 3; ++i) {
    study.trials.push_back({.id = i + 1,
                            .state = TrialState::kSucceeded,
                            .values = {{"rate", "0.5"}, {"kind", i == 0 ? "sgd" : "\"q\"&co"}},
                            .final_metric = Measurement{1, values[i]}});
  }
  return study;
}

TEST(StudyPicture, HasATrialInTheHistoryInTheLinesAndInEverySlice) {
  const std::string svg = study_svg(three_trials());
  EXPECT_EQ(count_of(svg, "<circle"), 3U * 3);
  // One of them is the best so far.
  EXPECT_EQ(count_of(svg, "<polyline"), 1U + 3);
  EXPECT_EQ(count_of(svg, "trial 3: "), 4U);
  EXPECT_EQ(count_of(svg, ">sgd</text>"), 2U);
}

TEST(StudyPicture, EscapesWhatXmlWouldTakeForItsOwn) {
  const std::string svg = study_svg(three_trials());
  EXPECT_EQ(svg.find("a<b"), svg.npos);
  EXPECT_NE(svg.find("a&lt;b"), svg.npos);
  EXPECT_NE(svg.find("&amp;co"), svg.npos);
}

TEST(StudyPicture, LeavesOutTrialsWithoutAFiniteMetric) {
  Study study = three_trials();
  study.trials[0].final_metric.reset();
  study.trials[1].final_metric->value = std::numeric_limits<double>::infinity();
  const std::string svg = study_svg(study);
  EXPECT_EQ(count_of(svg, "<circle"), 3U);
  EXPECT_EQ(svg.find("trial 1: "), svg.npos);
  EXPECT_EQ(svg.find("inf"), svg.npos);
  study.trials.clear();
  EXPECT_NE(study_svg(study).find("no trial has a metric yet"), std::string::npos);
}

TEST(StudyPicture, DrawsTheBestOfTooMany) {
  Study study = three_trials();
  const Trial one = study.trials[0];
  study.trials.clear();
  for (std::size_t i = 0; i < kMostDrawnTrials + 5; ++i) {
    study.trials.push_back(one);
    study.trials.back().id = static_cast<std::int64_t>(i) + 1;
    study.trials.back().final_metric->value = static_cast<double>(i);
  }
  const std::string svg = study_svg(study);
  EXPECT_EQ(count_of(svg, "<circle"), 3 * kMostDrawnTrials);
  EXPECT_EQ(svg.find("trial 5: "), svg.npos);
  EXPECT_NE(svg.find("trial 6: "), svg.npos);
}

}  // namespace
}  // namespace muster::tuning
