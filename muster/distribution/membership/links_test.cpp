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

/// Which share a processor with the one before them: those whose rank is no multiple of `sharing`.
GenerationPlan plan_of(std::size_t trainers, std::size_t servers = 0, std::size_t sharing = 1) {
  GenerationPlan plan{.number = 1,
                      .members = std::vector<GenerationMember>(trainers + servers),
                      .trainers = trainers};
  for (std::size_t rank = 0; rank < trainers; ++rank) {
    plan.members[rank].shares_processor = rank % sharing != 0;
  }
  return plan;
}

/// Blocks of one size, also of all tasks, and of several.
std::vector<std::vector<GenerationMember>> layouts() {
  std::vector<std::vector<GenerationMember>> all;
  for (std::size_t ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (const std::size_t sharing : {1U, 2U, 3U, 4U, 16U, 70U}) {
      all.push_back(plan_of(ranks, 0, sharing).members);
    }
    auto uneven = plan_of(ranks).members;
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      uneven[rank].shares_processor = rank % 7 != 3 && rank % 11 != 5;
    }
    all.push_back(std::move(uneven));
  }
  return all;
}

// Exchanges of all tasks, done with ranks instead of gradients.
TEST(ExchangeOf, EveryTaskEndsWithWhatAllHave) {
  for (const auto& members : layouts()) {
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      const Exchange exchange = exchange_of(members, rank);
      RankRange has{rank, rank + 1};
      for (const Exchange::Stage& neighbour : exchange.taken_from) {
        EXPECT_EQ(neighbour.own, has);
        EXPECT_EQ(neighbour.others.first, has.last);
        has.last = neighbour.others.last;
        // The other side of it.
        EXPECT_EQ(exchange_of(members, neighbour.partner).given_to,
                  (Exchange::Stage{rank, neighbour.others, neighbour.own}));
      }
      if (exchange.given_to) {
        EXPECT_EQ(exchange.given_to->own, has);
        EXPECT_TRUE(exchange.stages.empty());
        continue;
      }
      for (const Exchange::Stage& stage : exchange.stages) {
        EXPECT_EQ(stage.own, has);
        // Blocks are neighbours.
        EXPECT_TRUE(stage.own.last == stage.others.first || stage.others.last == stage.own.first);
        has = {std::min(has.first, stage.others.first), std::max(has.last, stage.others.last)};
      }
      EXPECT_EQ(has, (RankRange{0, members.size()}));
    }
  }
}

// Reduce and scatter of all tasks, done with places instead of gradients.
TEST(HalvingOf, EveryTaskEndsWithItsOwnPlaceAndThoseBehindIt) {
  for (const auto& members : layouts()) {
    if (members.size() > kMostRanks / 2) continue;
    const std::vector<std::size_t> order = halving_of(members, 0).order;
    std::vector<std::size_t> sorted = order;
    std::ranges::sort(sorted);
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      ASSERT_EQ(sorted[rank], rank);
      const Exchange exchange = exchange_of(members, rank);
      const Halving halving = halving_of(members, rank);
      ASSERT_EQ(halving.order, order);
      ASSERT_EQ(halving.stages.size(), exchange.stages.size());
      if (exchange.given_to) continue;
      RankRange has{0, members.size()};
      for (std::size_t i = 0; i < halving.stages.size(); ++i) {
        const auto& [kept, given] = halving.stages[i];
        EXPECT_EQ(std::min(kept.first, given.first), has.first);
        EXPECT_EQ(std::max(kept.last, given.last), has.last);
        EXPECT_TRUE(kept.last == given.first || given.last == kept.first);
        // The other side of it.
        const Halving of_partner = halving_of(members, exchange.stages[i].partner);
        EXPECT_EQ(of_partner.stages[i], (Halving::Stage{given, kept}));
        has = kept;
      }
      EXPECT_EQ(order[has.first], rank);
      std::size_t behind = 1;
      for (const Exchange::Stage& neighbour : exchange.taken_from) {
        EXPECT_EQ(order[has.first + behind], neighbour.others.first);
        behind += neighbour.others.last - neighbour.others.first;
      }
      EXPECT_EQ(has.last - has.first, behind);
    }
  }
}

TEST(ExchangeOf, WhatIsGivenIsTaken) {
  for (const auto& members : layouts()) {
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      const auto given_to = exchange_of(members, rank).given_to;
      if (!given_to) continue;
      EXPECT_THAT(exchange_of(members, given_to->partner).taken_from,
                  Contains(Exchange::Stage{rank, given_to->others, given_to->own}));
    }
  }
}

TEST(ExchangeOf, PartnersMeetAtTheSameStage) {
  for (const auto& members : layouts()) {
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      const auto stages = exchange_of(members, rank).stages;
      for (std::size_t i = 0; i < stages.size(); ++i) {
        const auto of_partner = exchange_of(members, stages[i].partner).stages;
        ASSERT_GT(of_partner.size(), i);
        EXPECT_EQ(of_partner[i], (Exchange::Stage{rank, stages[i].others, stages[i].own}));
      }
    }
  }
}

TEST(ExchangeOf, OfThoseThatShareAProcessorOneGoesThroughTheStages) {
  const auto members = plan_of(64, 0, 4).members;
  for (std::size_t rank = 0; rank < 64; ++rank) {
    EXPECT_EQ(exchange_of(members, rank).stages.size(), rank % 4 == 0 ? 4U : 0U);
    EXPECT_EQ(exchange_of(members, rank).taken_from.size(), rank % 4 == 0 ? 3U : 0U);
  }
}

TEST(LinkedRanks, GrowWithTheLogarithmOfTheTasks) {
  for (std::size_t ranks = 1; ranks <= 256; ++ranks) {
    const GenerationPlan plan = plan_of(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_LE(linked_ranks(plan, rank).size(), std::bit_width(ranks));
    }
  }
}

TEST(LinkedRanks, AreTheSameFromBothSides) {
  for (const auto& members : layouts()) {
    const GenerationPlan plan{.number = 1, .members = members, .trainers = members.size()};
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      for (const std::size_t other : linked_ranks(plan, rank)) {
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
    for (const std::size_t sharing : {1U, 2U, 4U, 5U, 64U}) {
      const GenerationPlan plan = plan_of(ranks, 0, sharing);
      for (std::size_t source = 0; source < ranks; ++source) {
        std::vector<std::size_t> reached{source};
        for (std::size_t next = 0; next < reached.size(); ++next) {
          const std::size_t rank = reached[next];
          for (const std::size_t to : state_receivers(plan.members, rank, source)) {
            EXPECT_THAT(linked_ranks(plan, rank), Contains(to));
            EXPECT_EQ(state_sender(plan.members, to, source), rank);
            reached.push_back(to);
          }
        }
        EXPECT_EQ(reached.size(), ranks);
        EXPECT_EQ(std::set(reached.begin(), reached.end()).size(), ranks);
      }
    }
  }
}

}  // namespace
}  // namespace muster::internal
