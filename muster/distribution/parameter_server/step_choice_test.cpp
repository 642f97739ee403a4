#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/distribution/parameter_server/step_choice_internal.h"
#include "muster/distribution/wire/message_table_internal.h"

namespace muster::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The chief with two replicas, and two workers with one each.
std::vector<GenerationMember> members() {
  return {{.task = "chief:0", .replicas = {0, 2}},
          {.task = "worker:0", .replicas = {2, 3}},
          {.task = "worker:1", .replicas = {3, 4}}};
}

ReceivedStep push_of(std::size_t rank, std::int64_t present = 1) {
  ReceivedStep push{.replicas = members()[rank].replicas};
  push.parts.present = present;
  for (auto r = push.replicas.first; r < push.replicas.last; ++r) {
    push.positions.push_back("new " + std::to_string(r));
  }
  return push;
}

TEST(WaitingPushes, WithoutBackupsAllAreWaitedFor) {
  WaitingPushes pushes(members(), 0, 0);
  pushes.add(0, 7, push_of(0));
  pushes.add(2, 7, push_of(2));
  EXPECT_FALSE(pushes.choose(7));
  EXPECT_EQ(pushes.missing(), "worker:0");
  pushes.add(1, 7, push_of(1));
  EXPECT_THAT(pushes.choose(7)->counted, ElementsAre(0, 1, 2));
}

TEST(WaitingPushes, AStepIsMadeWithoutTheLastReplicasButNotWithoutTheChief) {
  WaitingPushes pushes(members(), 2, 0);
  pushes.add(1, 7, push_of(1));
  pushes.add(2, 7, push_of(2));
  EXPECT_FALSE(pushes.choose(7));
  WaitingPushes others(members(), 1, 0);
  others.add(0, 7, push_of(0));
  EXPECT_FALSE(others.choose(7));
  others.add(2, 7, push_of(2));
  EXPECT_THAT(others.choose(7)->counted, ElementsAre(0, 2));
  EXPECT_THAT(others.choose(7)->late, IsEmpty());
}

TEST(WaitingPushes, APushCountsWhenAllServersHaveTheirPartsOfIt) {
  WaitingPushes pushes(members(), 1, 2);
  for (const std::size_t rank : {0U, 1U}) {
    pushes.add(rank, 7, push_of(rank));
    pushes.arrived_elsewhere(rank);
  }
  pushes.arrived_elsewhere(0);
  EXPECT_FALSE(pushes.choose(7));
  EXPECT_EQ(pushes.missing(), "worker:0, worker:1");
  pushes.arrived_elsewhere(1);
  // Also where others had it first.
  pushes.arrived_elsewhere(2);
  pushes.arrived_elsewhere(2);
  EXPECT_THAT(pushes.choose(7)->counted, ElementsAre(0, 1));
  pushes.add(2, 7, push_of(2));
  EXPECT_THAT(pushes.choose(7)->counted, ElementsAre(0, 1, 2));
}

TEST(WaitingPushes, WhoIsLateIsAnsweredAndDoesNotCount) {
  WaitingPushes pushes(members(), 1, 0);
  pushes.add(0, 8, push_of(0));
  pushes.add(1, 7, push_of(1));
  EXPECT_FALSE(pushes.choose(8));
  pushes.add(2, 8, push_of(2));
  const auto choice = pushes.choose(8);
  EXPECT_THAT(choice->counted, ElementsAre(0, 2));
  EXPECT_THAT(choice->late, ElementsAre(1));

  const auto taken = pushes.take(*choice, {"old 0", "old 1", "old 2", "old 3"});
  EXPECT_EQ(taken[0].parts.present, 1);
  EXPECT_EQ(taken[1].parts.present, 0);
  EXPECT_EQ(taken[1].parts.sums.size(), 1U);
  // Its batch is used up all the same.
  EXPECT_THAT(taken[1].positions, ElementsAre("new 2"));
  EXPECT_EQ(pushes.missing(), "chief:0, worker:0, worker:1");
}

TEST(WaitingPushes, TheInputOfATaskThatHasNotComeStaysWhereItIs) {
  WaitingPushes pushes(members(), 1, 0);
  pushes.add(0, 7, push_of(0));
  pushes.add(1, 7, push_of(1));
  const auto taken = pushes.take(*pushes.choose(7), {"old 0", "old 1", "old 2", "old 3"});
  EXPECT_THAT(taken[2].positions, ElementsAre("old 3"));
  EXPECT_EQ(pushes.missing(), "chief:0, worker:0, worker:1");
}

TEST(WaitingPushes, TheEndOfTheInputNeedsTheWordOfAll) {
  WaitingPushes pushes(members(), 1, 0);
  pushes.add(0, 7, push_of(0, 0));
  pushes.add(1, 7, push_of(1, 0));
  EXPECT_FALSE(pushes.choose(7));
  pushes.add(2, 6, push_of(2));
  // The late one gets values and continues; the others wait for it.
  const auto choice = pushes.choose(7);
  EXPECT_THAT(choice->counted, IsEmpty());
  EXPECT_THAT(choice->late, ElementsAre(2));
  pushes.take(*choice, {"", "", "", ""});
  pushes.add(2, 7, push_of(2, 0));
  EXPECT_THAT(pushes.choose(7)->counted, ElementsAre(0, 1, 2));
}

TEST(StepChoice, NamesTasksThatTrainAlone) {
  const std::string bytes = encode(StepChoice{.counted = {0, 2}, .late = {1}}).header;
  EXPECT_THAT(decode<StepChoice>(bytes, {}, {.trainers = 3}).counted, ElementsAre(0, 2));
  EXPECT_THAT(decode<StepChoice>(bytes, {}, {.trainers = 3}).late, ElementsAre(1));
  EXPECT_THROW(decode<StepChoice>(bytes, {}, {.trainers = 2}), DataLoss);
}

}  // namespace
}  // namespace muster::internal
