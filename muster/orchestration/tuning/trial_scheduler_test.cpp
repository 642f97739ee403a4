#include "muster/orchestration/tuning/trial_scheduler_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/orchestration/tuning/study_test_internal.h"

namespace muster::tuning {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> kTrain{"train", "--train-steps=9"};

// Runs the schedule with these losses by trial, one run at a time, and says what was trained up to.
std::vector<std::string> schedule(const std::string& block, const std::vector<double>& losses) {
  const HyperparameterSpec spec = parse_hyperparameters(block);
  const TrialSuggester suggester(spec, SearchAlgorithms::built_in(), 1);
  const auto scheduler = make_scheduler(suggester, kTrain);
  std::vector<std::string> runs;
  StudyHistory history;
  while (const auto next = scheduler->next(history, history.runs.size())) {
    if (next->trial == history.trials.size()) {
      auto trial = scheduler->new_trial(history, history.runs.size());
      if (!trial) continue;
      history.trials.push_back(*trial);
      history.trials.back().id = static_cast<std::int64_t>(history.trials.size());
    }
    Trial& trial = history.trials[next->trial];
    history.runs.push_back({next->trial, next->rung, trial.rungs.size()});
    scheduler->begin(trial, next->rung, static_cast<std::int64_t>(history.runs.size()));
    const auto limit = scheduler->step_limit(trial);
    runs.push_back(std::to_string(trial.id) + ":" + (limit ? std::to_string(limit->steps) : "-") +
                   (scheduler->will_pause(trial) ? " pauses" : ""));
    trial.state = TrialState::kSucceeded;
    trial.final_metric = Measurement{.step = 1, .value = losses.at(next->trial)};
    scheduler->finish(trial);
  }
  return runs;
}

TEST(TrialScheduler, OfAPlainStudyTrainsEveryTrialToItsEnd) {
  EXPECT_THAT(schedule(spec_of(3, 1), {3, 1, 2}), ElementsAre("1:-", "2:-", "3:-"));
}

TEST(TrialScheduler, OfAPlainStudyEndsWithTheGrid) {
  EXPECT_EQ(schedule(prefix_grid(1), std::vector<double>(9, 1)).size(), 9U);
}

TEST(TrialScheduler, OfAshaPromotesTheBestTrial) {
  const std::string asha =
      R"(, "trialStopping": {"rule": "ASHA", "minSteps": 3, "reductionFactor": 3})";
  EXPECT_THAT(schedule(spec_of(3, 1, asha), {3, 1, 2}),
              ElementsAre("1:3 pauses", "2:3 pauses", "3:3 pauses", "2:9"));
}

TEST(TrialScheduler, OfAPopulationTrainsInRounds) {
  const auto runs = schedule(spec_of(8, 1, kPopulation), {1, 2, 3, 4, 1, 2, 3, 4});
  ASSERT_EQ(runs.size(), 8U);
  EXPECT_EQ(runs[3], "4:4 pauses");
  EXPECT_EQ(runs[4], "5:9");
}

TEST(TrialScheduler, OfAshaRestoresTheOrderOfRuns) {
  const HyperparameterSpec spec =
      parse_hyperparameters(spec_of(3, 1, R"(, "trialStopping": {"rule": "ASHA", "minSteps": 3})"));
  const TrialSuggester suggester(spec, SearchAlgorithms::built_in(), 1);
  const auto scheduler = make_scheduler(suggester, kTrain);
  std::vector<Trial> trials(2);
  trials[0].rungs = {{.run = 1, .max_steps = 3}, {.run = 3, .max_steps = 9}};
  trials[1].rungs = {{.run = 2, .max_steps = 3}};
  const auto runs = scheduler->runs_of(trials);
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[1].trial, 1U);
  EXPECT_EQ(runs[2].trial, 0U);
  EXPECT_EQ(runs[2].rung, 1U);
  EXPECT_EQ(runs[2].entry, 1U);
  trials[1].rungs[0].max_steps = 4;
  EXPECT_THROW(scheduler->runs_of(trials), DataLoss);
}

}  // namespace
}  // namespace muster::tuning
