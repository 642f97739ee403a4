#include "muster/orchestration/tuning/goals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/orchestration/tuning/study.h"

namespace muster::tuning {
namespace {

using ::testing::ElementsAre;

// Accuracy is to be large, size small.
HyperparameterSpec two_goals() {
  return parse_hyperparameters(R"({"metrics": [{"metric": "accuracy"},
      {"metric": "size", "goal": "MINIMIZE"}],
      "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]})");
}

Trial trial_of(std::int64_t id, double accuracy, double size) {
  return {.id = id,
          .state = TrialState::kSucceeded,
          .final_metric = Measurement{1, accuracy},
          .other_metrics = {{"eval/size", size}, {"size", -1}, {"loss", 3}}};
}

std::vector<std::int64_t> ids_of(const std::vector<const Trial*>& trials) {
  std::vector<std::int64_t> ids;
  ids.reserve(trials.size());
  for (const Trial* trial : trials) ids.push_back(trial->id);
  return ids;
}

TEST(Goals, OfAStudyHaveAParetoFront) {
  const auto spec = two_goals();
  const std::vector<Trial> trials{trial_of(1, 0.9, 100), trial_of(2, 0.8, 50), trial_of(3, 0.8, 60),
                                  trial_of(4, 0.95, 100), trial_of(5, 0.8, 50)};
  // Equal ones beat each other not.
  EXPECT_THAT(ids_of(pareto_front(spec, trials)), ElementsAre(2, 4, 5));
}

TEST(Goals, OfEvaluationsGoBeforeThoseOfTraining) {
  const auto spec = two_goals();
  Trial trial = trial_of(1, 0.9, 100);
  EXPECT_EQ(metric_value(spec, trial, "size"), 100);
  EXPECT_EQ(metric_value(spec, trial, "accuracy"), 0.9);
  EXPECT_EQ(metric_value(spec, trial, "missing"), std::nullopt);
  trial.other_metrics["eval_b/size"] = 7;
  EXPECT_THROW(metric_value(spec, trial, "size"), FailedPrecondition);
  EXPECT_EQ(metric_value(spec, trial, "eval_b:size"), 7);
}

TEST(Goals, AreWeighedAnewForEveryTrialAndTheSameForOne) {
  const auto spec = two_goals();
  const Trial good = trial_of(1, 1, 100);
  const Trial small = trial_of(2, 0, 10);
  const Trial bad = trial_of(3, 0, 100);
  const std::vector<const Trial*> trials{&good, &small, &bad};
  int first_wins = 0;
  for (std::uint64_t number = 0; number < 100; ++number) {
    const auto losses = scalar_losses(spec, trials, 7, number);
    EXPECT_EQ(losses, scalar_losses(spec, trials, 7, number));
    EXPECT_GT(losses[2], std::max(losses[0], losses[1]));
    first_wins += losses[0] < losses[1] ? 1 : 0;
  }
  EXPECT_GT(first_wins, 25);
  EXPECT_LT(first_wins, 75);
}

TEST(Goals, OutsideOfTheConstraintsAreWorseThanAllInside) {
  auto spec = two_goals();
  spec.other_goals.clear();
  spec.constraints = {{.tag = "size", .min_value = {}, .max_value = 60}};
  const Trial best = trial_of(1, 0.99, 120);
  const Trial nearer = trial_of(2, 0.98, 70);
  const Trial inside = trial_of(3, 0.5, 60);
  const std::vector<const Trial*> trials{&best, &nearer, &inside};
  const auto losses = scalar_losses(spec, trials, 1, 1);
  EXPECT_EQ(losses[2], -0.5);
  EXPECT_GT(losses[1], losses[2]);
  EXPECT_GT(losses[0], losses[1]);
  const Study study{.spec = spec, .trials = {best, nearer, inside}};
  EXPECT_EQ(study.best()->id, 3);
  EXPECT_THAT(ids_of(pareto_front(spec, study.trials)), ElementsAre(3));
}

}  // namespace
}  // namespace muster::tuning
