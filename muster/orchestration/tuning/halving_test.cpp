#include "muster/orchestration/tuning/halving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <utility>

#include "muster/base/error.h"

namespace muster::tuning {
namespace {

using ::testing::ElementsAre;

using Step = std::pair<std::size_t, std::size_t>;

// One worker; the same loss at all rungs.
std::vector<Step> order_of(const HalvingPlan& plan, const std::vector<double>& losses) {
  std::vector<TrialRun> runs;
  std::vector<Step> order;
  while (const auto next = next_run(plan, runs)) {
    runs.push_back({next->trial, next->rung, losses.at(next->trial)});
    order.emplace_back(next->trial, next->rung);
  }
  return order;
}

// How many trials came to each rung.
std::map<std::size_t, std::size_t> counts_of(const std::vector<Step>& order, std::size_t begin,
                                             std::size_t end) {
  std::map<std::size_t, std::size_t> counts;
  for (const auto& [trial, rung] : order) {
    if (trial >= begin && trial < end) ++counts[rung];
  }
  return counts;
}

TEST(Halving, LaysRungsFromTheWholeTrialDown) {
  EXPECT_THAT(make_halving_plan({.min_steps = 1}, 81, 1).rungs, ElementsAre(1, 3, 9, 27, 81));
  EXPECT_THAT(make_halving_plan({}, 2000, 1).rungs, ElementsAre(75, 223, 667, 2000));
  EXPECT_THAT(make_halving_plan({.min_steps = 100, .reduction = 4}, 2000, 1).rungs,
              ElementsAre(125, 500, 2000));
  EXPECT_THAT(make_halving_plan({}, 2, 1).rungs, ElementsAre(1, 2));
  EXPECT_THROW(make_halving_plan({.min_steps = 3}, 2, 1), InvalidArgument);
}

TEST(Halving, PromotesAsTheAshaPaperDoes) {
  const auto plan = make_halving_plan({.rule = StoppingRule::kAsha, .min_steps = 1}, 9, 12);
  const std::vector<double> losses{0.9, 0.5, 0.7, 0.2, 0.8, 0.6, 0.1, 0.4, 0.3, 0.55, 0.15, 0.65};
  const std::vector<Step> expected{{0, 0}, {1, 0}, {2, 0}, {1, 1},  {3, 0},  {3, 1},
                                   {4, 0}, {5, 0}, {6, 0}, {6, 1},  {6, 2},  {7, 0},
                                   {8, 0}, {8, 1}, {9, 0}, {10, 0}, {10, 1}, {11, 0}};
  EXPECT_EQ(order_of(plan, losses), expected);
}

TEST(Halving, TrainsTheBestOfFewTrialsToTheEnd) {
  const auto plan = make_halving_plan({.rule = StoppingRule::kAsha, .min_steps = 1}, 9, 2);
  const std::vector<Step> expected{{0, 0}, {1, 0}, {1, 1}, {1, 2}};
  EXPECT_EQ(order_of(plan, {0.5, 0.3}), expected);
  // Not before all results are there.
  EXPECT_FALSE(next_run(plan, std::vector<TrialRun>{{0, 0, 0.5}, {1, 0, {}}}).has_value());
}

TEST(Halving, PromotesNoTrialThatFailed) {
  const auto plan = make_halving_plan({.rule = StoppingRule::kAsha, .min_steps = 1}, 3, 3);
  const double failed = std::numeric_limits<double>::infinity();
  EXPECT_EQ(order_of(plan, {failed, failed, failed}).size(), 3U);
  EXPECT_EQ(order_of(plan, {failed, 1, failed}).back(), Step(1, 1));
}

TEST(Halving, HasTheBracketsOfHyperbandsPaper) {
  const auto plan = make_halving_plan({.rule = StoppingRule::kHyperband, .min_steps = 1}, 81, 143);
  std::vector<double> losses;
  for (int i = 0; i < 143; ++i) losses.push_back(i * 37 % 143);
  const auto order = order_of(plan, losses);
  using Counts = std::map<std::size_t, std::size_t>;
  EXPECT_EQ(counts_of(order, 0, 81), (Counts{{0, 81}, {1, 27}, {2, 9}, {3, 3}, {4, 1}}));
  EXPECT_EQ(counts_of(order, 81, 115), (Counts{{1, 34}, {2, 11}, {3, 3}, {4, 1}}));
  EXPECT_EQ(counts_of(order, 115, 130), (Counts{{2, 15}, {3, 5}, {4, 1}}));
  EXPECT_EQ(counts_of(order, 130, 138), (Counts{{3, 8}, {4, 2}}));
  EXPECT_EQ(counts_of(order, 138, 143), (Counts{{4, 5}}));
}

TEST(Halving, BeginsTheNextBracketWhileOneWaits) {
  const auto plan = make_halving_plan({.rule = StoppingRule::kHyperband, .min_steps = 1}, 3, 5);
  // The first bracket has three trials; the result of one is not known yet.
  std::vector<TrialRun> runs{{0, 0, 0.1}, {1, 0, 0.2}, {2, 0, {}}};
  EXPECT_EQ(next_run(plan, runs)->trial, 3U);
  EXPECT_EQ(next_run(plan, runs)->rung, 1U);
  runs[2].loss = 0.05;
  EXPECT_EQ(next_run(plan, runs)->trial, 2U);
}

}  // namespace
}  // namespace muster::tuning
