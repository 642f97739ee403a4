#include "muster/orchestration/tuning/ranking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::tuning {
namespace {

using ::testing::ElementsAre;

// A trial whose rungs were up to these steps; it has no metric at a last one of 0.
Trial ranked_trial(std::int64_t id, double value, const std::vector<std::int64_t>& steps) {
  Trial trial{.id = id, .state = TrialState::kPaused, .final_metric = Measurement{1, value}};
  for (const std::int64_t step : steps) {
    trial.rungs.push_back({.max_steps = step, .metric = Measurement{step, value}});
  }
  return trial;
}

std::vector<std::int64_t> ids_by_rank(const std::vector<const Trial*>& trials) {
  std::vector<std::int64_t> ids;
  ids.reserve(trials.size());
  for (const Trial* trial : trials) ids.push_back(trial->id);
  return ids;
}

TEST(Ranking, ComparesTrialsOfTheSameBudgetAlone) {
  Study study;
  study.spec.goal = Goal::kMaximize;
  study.trials = {ranked_trial(1, 0.9, {30}), ranked_trial(2, 0.7, {30, 90, 270}),
                  ranked_trial(3, 0.8, {30, 90, 270}), ranked_trial(4, 0.95, {30, 90})};
  // It has begun its rung of 270 steps, and has no metric of it.
  study.trials.push_back(ranked_trial(5, 0.94, {30, 90}));
  study.trials.back().rungs.push_back({.max_steps = 270});
  EXPECT_EQ(budget_of(study.trials[4]), 90);
  EXPECT_THAT(ids_by_rank(ranked(study)), ElementsAre(3, 2, 4, 5, 1));
  EXPECT_EQ(study.best()->id, 3);
}

TEST(Ranking, HasTheBestFirstThenThoseThatRunAndThoseThatFailed) {
  Study study;
  study.spec.goal = Goal::kMinimize;
  study.trials = {ranked_trial(1, 0.9, {}), ranked_trial(2, 0.7, {}), Trial{.id = 3},
                  Trial{.id = 4, .state = TrialState::kFailed}};
  study.trials.insert(study.trials.begin(), Trial{.id = 5, .state = TrialState::kFailed});
  EXPECT_THAT(ids_by_rank(ranked(study)), ElementsAre(2, 1, 3, 5, 4));
}

}  // namespace
}  // namespace muster::tuning
