#include "muster/distribution/membership/links_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

namespace muster::internal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

constexpr std::size_t kMostRanks = 70;

GenerationPlan plan_of(std::size_t trainers, std::size_t servers = 0) {
  return {.number = 1,
          .members = std::vector<GenerationMember>(trainers + servers),
          .trainers = trainers};
}

TEST(ExchangeOf, EveryTaskEndsWithWhatAllHave) {
  for (std::size_t ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Exchange exchange = exchange_of(rank, ranks);
      if (exchange.given_to) {
        EXPECT_EQ(exchange_of(*exchange.given_to, ranks).taken_from, rank);
        EXPECT_TRUE(exchange.stages.empty());
        continue;
      }
      RankRange has{rank, rank + (exchange.taken_from ? 2 : 1)};
      for (const Exchange::Stage& stage : exchange.stages) {
        EXPECT_EQ(stage.own, has);
        // Blocks are neighbours.
        EXPECT_TRUE(stage.own.last == stage.others.first || stage.others.last == stage.own.first);
        has = {std::min(has.first, stage.others.first), std::max(has.last, stage.others.last)};
      }
      EXPECT_EQ(has, (RankRange{0, ranks}));
    }
  }
}

TEST(ExchangeOf, PartnersMeetAtTheSameStage) {
  for (std::size_t ranks = 2; ranks <= kMostRanks; ++ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto stages = exchange_of(rank, ranks).stages;
      for (std::size_t i = 0; i < stages.size(); ++i) {
        const auto of_partner = exchange_of(stages[i].partner, ranks).stages;
        ASSERT_GT(of_partner.size(), i);
        EXPECT_EQ(of_partner[i], (Exchange::Stage{rank, stages[i].others, stages[i].own}));
      }
    }
  }
}

TEST(LinkedRanks, GrowWithTheLogarithmOfTheTasks) {
  for (std::size_t ranks = 1; ranks <= 256; ++ranks) {
    const GenerationPlan plan = plan_of(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto linked = linked_ranks(plan, rank);
      EXPECT_LE(linked.size(), std::bit_width(ranks));
      for (const std::size_t other : linked) {
        EXPECT_THAT(linked_ranks(plan, other), Contains(rank));
      }
    }
  }
}

TEST(LinkedRanks, ServersAndTheChiefAreConnectedWithAll) {
  const GenerationPlan plan = plan_of(3, 2);
  EXPECT_THAT(linked_ranks(plan, 0), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(linked_ranks(plan, 1), ElementsAre(0, 3, 4));
  EXPECT_THAT(linked_ranks(plan, 4), ElementsAre(0, 1, 2, 3));
}

TEST(StateSender, LeadsFromTheSourceToEveryTaskOverConnections) {
  for (const std::size_t ranks : {1U, 2U, 3U, 6U, 8U, 13U, 64U}) {
    const GenerationPlan plan = plan_of(ranks);
    for (std::size_t source = 0; source < ranks; ++source) {
      std::vector<std::size_t> reached{source};
      for (std::size_t next = 0; next < reached.size(); ++next) {
        const std::size_t rank = reached[next];
        for (const std::size_t to : state_receivers(rank, source, ranks)) {
          EXPECT_THAT(linked_ranks(plan, rank), Contains(to));
          EXPECT_EQ(state_sender(to, source, ranks), rank);
          reached.push_back(to);
        }
      }
      EXPECT_EQ(reached.size(), ranks);
      EXPECT_EQ(std::set(reached.begin(), reached.end()).size(), ranks);
    }
  }
}

}  // namespace
}  // namespace muster::internal
