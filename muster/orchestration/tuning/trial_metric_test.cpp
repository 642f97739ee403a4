#include "muster/orchestration/tuning/trial_metric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/summary/event_writer.h"
#include "muster/orchestration/tuning/median_rule.h"
#include "muster/testing/temp_dir.h"

namespace muster::tuning {
namespace {

using muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

void write_scalars(const Path& folder, const std::string& tag, std::vector<Measurement> values) {
  EventWriter writer(folder);
  for (const Measurement& value : values) {
    writer.add_scalar(tag, static_cast<float>(value.value), value.step);
  }
  writer.close();
}

TEST(TrialMetrics, PrefersAnEvaluationToTraining) {
  const TempDir folder;
  write_scalars(folder.path(), "loss", {{1, 8}, {2, 4}});
  write_scalars(folder / "eval_census", "loss", {{2, 0.5}});
  const auto metrics = read_trial_metrics(folder.path(), folder / "none", "loss");
  EXPECT_THAT(metrics.measurements, ElementsAre(Measurement{2, 0.5}));
  EXPECT_THAT(metrics.others, ElementsAre(Pair("loss", 4)));
}

TEST(TrialMetrics, ReadsTheFolderThatTheTagNames) {
  const TempDir folder;
  write_scalars(folder / "eval_a", "loss", {{2, 0.5}});
  write_scalars(folder / "eval_b", "loss", {{2, 0.25}});
  EXPECT_THAT(read_trial_metrics(folder.path(), folder / "none", "eval_b:loss").measurements,
              ElementsAre(Measurement{2, 0.25}));
  try {
    read_trial_metrics(folder.path(), folder / "none", "loss");
    FAIL() << "no error";
  } catch (const FailedPrecondition& error) {
    EXPECT_THAT(error.what(), HasSubstr("in several folders: eval_a, eval_b"));
  }
}

TEST(TrialMetrics, ReadsTheFileOfCloudmlHypertune) {
  const TempDir folder;
  testing::write_bytes(
      folder / "metrics",
      R"({"accuracy": "0.75", "global_step": "10", "timestamp": 1.5, "trial": "3"})"
      "\n"
      R"({"accuracy": "0.875", "global_step": "20", "timestamp": 2.5, "trial": "3"})"
      "\n");
  EXPECT_THAT(read_trial_metrics(folder.path(), folder / "metrics", "accuracy").measurements,
              ElementsAre(Measurement{10, 0.75}, Measurement{20, 0.875}));
  testing::write_bytes(folder / "metrics", "{\"accuracy\": \n");
  EXPECT_THROW(read_trial_metrics(folder.path(), folder / "metrics", "accuracy"), DataLoss);
}

TEST(TrialMetrics, TakeEveryStepThatThereIsAndNoOther) {
  const TempDir folder;
  const auto last_of = [&](const std::string& step) {
    testing::write_bytes(folder / "metrics",
                         R"({"loss": 1, "global_step": )" + step + "}\n" + R"({"loss": 2})" + "\n");
    return read_trial_metrics(folder.path(), folder / "metrics", "loss").measurements.back();
  };
  EXPECT_EQ(last_of("9223372036854775807"), (Measurement{9223372036854775807, 1}));
  EXPECT_EQ(last_of(R"("9007199254740993")"), (Measurement{9007199254740993, 1}));
  EXPECT_EQ(last_of("100.0"), (Measurement{100, 1}));
  for (const char* step :
       {"9223372036854775808", "-1", "1e30", "1.5", R"("nan")", R"("")", "null"}) {
    try {
      last_of(step);
      FAIL() << step;
    } catch (const DataLoss& error) {
      EXPECT_THAT(error.what(),
                  ::testing::AllOf(HasSubstr("metrics:1: "), HasSubstr("global_step")));
    }
  }
}

TEST(TrialMetrics, AreEmptyWhereNothingWasWritten) {
  const TempDir folder;
  EXPECT_TRUE(read_trial_metrics(folder / "1", folder / "none", "loss").measurements.empty());
}

// The vector of the rule's description: averages up to step 2 are 1.5, 3 and 3.
TEST(MedianRule, StopsWhatIsStrictlyWorseThanTheMedianOfAverages) {
  const std::vector<std::vector<Measurement>> completed{
      {{1, 1}, {2, 2}, {3, 3}}, {{1, 2}, {2, 4}, {3, 6}}, {{1, 3}, {2, 3}, {3, 3}}};
  const auto stops = [&](std::vector<Measurement> running) {
    return stops_by_median(Goal::kMaximize, running, completed);
  };
  EXPECT_TRUE(stops({{1, 2}, {2, 2.9}}));
  EXPECT_FALSE(stops({{1, 2}, {2, 3}}));
  EXPECT_FALSE(stops({{1, 3.5}, {2, 1}}));
  EXPECT_FALSE(stops({}));
  // Values that are not finite say nothing of a trial.
  const std::vector<std::vector<Measurement>> odd{{{1, 1}, {2, INFINITY}}, {{1, NAN}, {2, 1}}};
  EXPECT_TRUE(stops_by_median(Goal::kMaximize, std::vector<Measurement>{{2, 0.5}}, odd));
  EXPECT_FALSE(stops_by_median(Goal::kMaximize, std::vector<Measurement>{{2, 1}}, odd));
  EXPECT_FALSE(stops_by_median(Goal::kMaximize, std::vector<Measurement>{{1, 0}}, {}));
  EXPECT_TRUE(stops_by_median(Goal::kMinimize, std::vector<Measurement>{{2, 3.1}}, completed));
}

}  // namespace
}  // namespace muster::tuning
